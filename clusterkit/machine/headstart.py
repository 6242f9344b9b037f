"""The head start of servers: a coordinator that restarts with a ps begins when the workers have found the new ps.

TensorFlow's channels try again a second after an address at which nobody listened. A worker that lives on while its ps
starts again has such a channel. Until it has tried again, what a coordinator asks of it fails at once, and the
coordinator with it.

Why not for the first start as well: measured, a coordinator that starts with its servers trains no later.
"""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.machine.cluster_state import HEAD_START, ClusterState
from clusterkit.machine.timers import Timer
from clusterkit.words.model import Shape, Task, TaskType

LONGEST = 0.5  # seconds after the last server has become a process; it may be a program that does not say Ready
FOUND = 1.1  # seconds after a ps is up; TensorFlow sets gRPC's fixed_reconnect_backoff_ms to 1000


@dataclass(slots=True)
class HeadStart:
    """Holds the coordinator's start back."""

    state: ClusterState
    unfound: bool = False  # whether old workers have yet to find a new ps
    found_at: float | None = None  # when they will have, once it is up

    def reasons(self, task: Task) -> set[int]:
        """HEAD_START, where this is the coordinator's start, and a ps starts with it."""
        if self.state.job.shape is not Shape.PARAMETER_SERVER or task != self.state.job.leader:
            return set()
        self.state.timers.clear(Timer.HEAD_START)
        self.unfound, self.found_at = self.state.records[task].attempt > 0 and self._is_unfound(), None
        return {HEAD_START} if self._has_to_wait() else set()

    def settle(self) -> None:
        """Let the coordinator go that does not have to wait any more."""
        if HEAD_START in self.state.records[self.state.job.leader].held_by and not self._has_to_wait():
            self.due()

    def due(self) -> None:
        """Let it go, whatever its servers do."""
        self.state.timers.clear(Timer.HEAD_START)
        self.state.release(self.state.job.leader, HEAD_START)

    def _has_to_wait(self) -> bool:
        if not self.unfound:
            return False
        census, timers, now = self.state.census, self.state.timers, self.state.now
        starting, running = map(self._has_server, (census.starting, census.forked | census.cold))
        coming = starting or running
        if coming and not starting and not timers.is_set(Timer.HEAD_START):
            timers.set(Timer.HEAD_START, now + LONGEST + FOUND)
        elif not coming and self.found_at is None:
            self.found_at = now + FOUND
            timers.set(Timer.HEAD_START, self.found_at)
        return coming or (self.found_at is not None and now < self.found_at)

    def _is_unfound(self) -> bool:
        """Whether a ps is on its way to which workers that are there may have lost their connection."""
        census = self.state.census
        old = any(record.ready and record.task.type is TaskType.WORKER for record in self.state.alive())
        return old and any(task.type is TaskType.PS for task in (*census.starting, *census.forked, *census.cold))

    def _has_server(self, tasks: set[Task]) -> bool:
        """Whether a server is among these, which start, or have just started: one that is held back is not."""
        job, others = self.state.job, 2  # the coordinator and an evaluator
        return len(tasks) > others or (bool(tasks) and any(map(job.is_server, tasks)))
