"""Task starts that are held back by a fault, or until the workers have connected to a new parameter server."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from clusterkit.machine.cluster_state import HEAD_START, ClusterState
from clusterkit.machine.timers import Timer
from clusterkit.words.model import Shape, Task, TaskType

Delays = dict[Task, dict[int, float]]  # maps each task and fault number to a delay in seconds, or to a time


@dataclass(slots=True)
class DelayedStarts:
    """Task starts that faults delay. A task starts once no fault delays it. Methods take the numbers of faults."""

    state: ClusterState
    planned_delays: Delays = field(default_factory=dict)  # how long each fault will hold back the next start
    release_times: Delays = field(default_factory=dict)  # when each fault releases the current start
    effective_faults: set[int] = field(default_factory=set)  # the faults that have held back a start

    def delay_next_start(self, number: int, tasks: Iterable[Task], seconds: float) -> None:
        """Let the fault with this number hold back the next start of these tasks."""
        for task in tasks:
            self.planned_delays.setdefault(task, {})[number] = seconds

    def hold_reasons(self, task: Task) -> set[int]:
        """Return the faults that hold back the start of this task."""
        if not (seconds := self.planned_delays.pop(task, None)):
            return set()
        self.release_times[task] = {number: self.state.now + s for number, s in seconds.items()}
        self.state.timers.set(Timer.LATE_START, self.state.now + max(seconds.values()), task)
        self.effective_faults.update(seconds)
        return set(seconds)

    def is_delaying(self, number: int, task: Task) -> bool:
        """Return whether the fault holds back the task's current or next start."""
        return number in self.planned_delays.get(task, ()) or number in self.state.records[task].held_by

    def release(self, number: int, tasks: Iterable[Task]) -> None:
        """Note that the fault no longer delays any start of these tasks, neither the current start nor the next."""
        for task in tasks:
            self.planned_delays.get(task, {}).pop(number, None)
            if number in self.state.records[task].held_by:
                del self.release_times[task][number]
                self.state.release(task, number)
                if until := self.release_times[task]:
                    self.state.timers.set(Timer.LATE_START, max(until.values()), task)

    def on_timer(self, task: Task) -> None:
        """Start the task, since all its delays are over."""
        self.state.release(task, *self.release_times.pop(task, ()))


LONGEST_WAIT = 0.5  # seconds; the maximum wait for servers to report that they are ready; some programs never report it
RECONNECTION = 1.1  # seconds until workers reconnect to a new ps: gRPC's fixed_reconnect_backoff_ms is 1000


@dataclass(slots=True)
class HeadStart:
    """Holds back a coordinator that restarts together with a ps, until the workers have connected to the new ps.

    When a ps restarts, a surviving worker finds no listener at the address of the ps, and its TensorFlow channel tries
    again only after a second. Until then, every request of the coordinator to this worker fails at once, and so the
    coordinator fails, too.

    The first start is not held back: in measurements, waiting for the servers did not make training begin sooner.
    """

    state: ClusterState
    reconnecting: bool = False  # True while surviving workers still have to connect to a new ps
    reconnected_at: float | None = None  # when the surviving workers will have reconnected; None until the ps is up

    def hold_reasons(self, task: Task) -> set[int]:
        """Return {HEAD_START} if the task is a coordinator, and surviving workers have to connect to a new ps."""
        if self.state.job.shape is not Shape.PARAMETER_SERVER or task != self.state.job.leader:
            return set()
        self.state.timers.clear(Timer.HEAD_START)
        self.reconnecting, self.reconnected_at = self.state.records[task].attempt > 0 and self._must_reconnect(), None
        return {HEAD_START} if self._has_to_wait() else set()

    def settle(self) -> None:
        """Start the coordinator once it no longer has to wait."""
        if HEAD_START in self.state.records[self.state.job.leader].held_by and not self._has_to_wait():
            self.on_timer()

    def on_timer(self) -> None:
        """Start the coordinator without waiting for its servers any longer."""
        self.state.timers.clear(Timer.HEAD_START)
        self.state.release(self.state.job.leader, HEAD_START)

    def _has_to_wait(self) -> bool:
        if not self.reconnecting:
            return False
        census, timers, now = self.state.census, self.state.timers, self.state.now
        starting, running = map(self._has_server, (census.starting, census.forked | census.cold))
        servers_coming = starting or running
        if servers_coming and not starting and not timers.is_set(Timer.HEAD_START):
            timers.set(Timer.HEAD_START, now + LONGEST_WAIT + RECONNECTION)
        elif not servers_coming and self.reconnected_at is None:
            self.reconnected_at = now + RECONNECTION
            timers.set(Timer.HEAD_START, self.reconnected_at)
        return servers_coming or (self.reconnected_at is not None and now < self.reconnected_at)

    def _must_reconnect(self) -> bool:
        """Return whether running workers have to reconnect to a ps that is starting."""
        census = self.state.census
        has_survivors = any(record.ready and record.task.type is TaskType.WORKER for record in self.state.alive())
        return has_survivors and any(
            task.type is TaskType.PS for task in (*census.starting, *census.forked, *census.cold)
        )

    def _has_server(self, tasks: set[Task]) -> bool:
        """Return whether the tasks, which are starting or have just started, include a server."""
        job, others = self.state.job, 2  # at most two tasks are not servers: the coordinator and an evaluator
        return len(tasks) > others or (bool(tasks) and any(map(job.is_server, tasks)))
