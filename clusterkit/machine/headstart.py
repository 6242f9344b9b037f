"""The head start: in a warm parameter-server job the coordinator begins when its servers are up, and are found.

TensorFlow's channels try again a second after an address at which nobody listened. Forked tasks come up so fast that
this second is most of a start. Cold ones are seconds apart anyway, and are not held up.

A worker that lives on while its ps starts again has such a channel, too. Until it has tried again, what a coordinator
asks of it fails at once, and the coordinator with it: so the one that starts with the ps gives the workers that second,
also where it starts cold.
"""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.machine.cluster_state import ClusterState, TaskRecord
from clusterkit.machine.timers import Timer
from clusterkit.words.actions import Spawn
from clusterkit.words.model import Shape, TaskType
from clusterkit.words.states import TaskState

LONGEST = 0.5  # seconds after the last server has become a process; it may be a program that does not say Ready
FOUND = 1.1  # seconds after a ps is up; TensorFlow sets gRPC's fixed_reconnect_backoff_ms to 1000


@dataclass(slots=True)
class HeadStart:
    """Holds the coordinator's Spawn back."""

    state: ClusterState
    warm: bool = False  # whether there is a fork server
    held: Spawn | None = None
    sent: Spawn | None = None  # the last one that was let go
    unfound: bool = False  # whether old workers have yet to find a new ps
    found_at: float | None = None  # when they will have, once it is up

    def settle(self) -> None:
        """Keep a new Spawn of the coordinator, or let the one go that was kept."""
        if self.held is None:
            self._hold()
        if self.held is not None and not self._has_to_wait(self.held):
            self.let_go()

    def _hold(self) -> None:
        job = self.state.job
        if job.shape is not Shape.PARAMETER_SERVER:
            return
        spawn = next((a for a in self.state.out if isinstance(a, Spawn) and a.task == job.leader), None)
        if spawn is None or spawn == self.sent:
            return
        self.unfound, self.found_at = spawn.attempt > 1 and self._is_unfound(), None
        if (self.warm or self.unfound) and self._has_to_wait(spawn):
            self.state.out.remove(spawn)
            self.held = spawn

    def _has_to_wait(self, spawn: Spawn) -> bool:
        leader = self.state.records[spawn.task]
        if not (self.warm or self.unfound) or leader.attempt != spawn.attempt or leader.asked is not None:
            return False
        coming, timers, now = self._coming(), self.state.timers, self.state.now
        if coming and all(r.state is TaskState.RUNNING for r in coming) and not timers.is_set(Timer.HEAD_START):
            timers.set(Timer.HEAD_START, now + LONGEST + (FOUND if self.unfound else 0.0))
        elif not coming and self.unfound and self.found_at is None:
            self.found_at = now + FOUND
            timers.set(Timer.HEAD_START, self.found_at)
        return bool(coming) or (self.found_at is not None and now < self.found_at)

    def _is_unfound(self) -> bool:
        """Whether a ps is on its way to which workers that are there may have lost their connection."""
        old = any(r.alive and r.ready and r.task.type is TaskType.WORKER for r in self._servers())
        return old and any(record.task.type is TaskType.PS for record in self._coming())

    def let_go(self) -> None:
        """Whatever the servers do."""
        if self.held is not None:
            self.state.timers.clear(Timer.HEAD_START)
            self.state.out.insert(0, self.held)  # before what else is asked of it
            self.held, self.sent = None, self.held

    def _servers(self) -> list[TaskRecord]:
        return [record for record in self.state.records.values() if self.state.job.is_server(record.task)]

    def _coming(self) -> list[TaskRecord]:
        states, late = (TaskState.STARTING, TaskState.RUNNING), self.state.late
        return [r for r in self._servers() if r.state in states and not r.ready and r.task not in late]
