"""Whether a run is ready, for a command that waits: from the states of its tasks and the ports that they opened."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterkit.ledger.status import TaskStatus
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task, TaskState


class ReadinessCheck(NamedTuple):
    """The result of one inspection of the tasks.

    `new` tasks became ready since the previous inspection. `silent` tasks have run for too long without opening a port
    or reporting anything. `over` is True if no task is waited for any more.
    """

    new: tuple[Task, ...]
    silent: tuple[Task, ...]
    over: bool


@dataclass(slots=True)
class Readiness:
    """Determines when each task of the cluster is ready, has ended well, or was silent for `patience` seconds.

    A task is ready when it runs and has opened its port or reported anything. The task of a single-process job only
    has to run, because no other task connects to it.
    """

    job: JobSpec
    patience: float
    _ready: set[Task] = field(default_factory=set)
    _since: dict[Task, tuple[int, float]] = field(default_factory=dict)  # running attempt, time of its first inspection

    def look(self, tasks: Mapping[Task, TaskStatus], listening: Collection[Task], now: float) -> ReadinessCheck:
        """Inspect the tasks. `now` is in seconds of any clock."""
        cluster = [tasks[task] for task in self.job.tasks if task in self.job.cluster and not tasks[task].given_up]
        ready = {of.task for of in cluster if self._is_ready(of, of.task in listening)}
        new = tuple(of.task for of in cluster if of.task in ready - self._ready)
        self._ready = ready
        silent = [of.task for of in cluster if of.task not in ready and self._is_silent(of, now)]
        rest = [of for of in cluster if of.task not in ready and of.task not in silent and not _ended_well(of)]
        return ReadinessCheck(new, tuple(silent), not rest)

    def _is_ready(self, of: TaskStatus, listens: bool) -> bool:
        return of.state is TaskState.RUNNING and (of.ready or listens or self.job.shape is Shape.SINGLE)

    def _is_silent(self, of: TaskStatus, now: float) -> bool:
        if of.state is not TaskState.RUNNING:
            self._since.pop(of.task, None)
            return False
        attempt, since = self._since.setdefault(of.task, (of.attempt, now))
        if attempt != of.attempt:
            self._since[of.task] = (of.attempt, now)
            return False
        return now - since >= self.patience


def _ended_well(of: TaskStatus) -> bool:
    return of.state is TaskState.DOWN and of.last_exit is not None and of.last_exit.ok
