"""Named deadlines."""

from __future__ import annotations

import enum

from clusterkit.words.model import Task


class Timer(enum.Enum):
    """What a deadline is for."""

    KILL = "the grace period of a task"
    DRAIN = "the end of a task's output"
    STARTUP = "the startup of a task"
    STALL = "the next look at progress"
    JOB = "the time of the whole job"
    FINISH = "the time of the others after the leader's success"
    EVALUATOR = "the evaluator's time after the leader's success"


Key = tuple[Timer, Task | None]


class Timers:
    """At most one deadline for each key, in seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._at: dict[Key, float] = {}

    def set(self, timer: Timer, at: float, task: Task | None = None) -> None:
        """Set or move a deadline."""
        self._at[timer, task] = at

    def clear(self, timer: Timer, task: Task | None = None) -> None:
        """Forget a deadline, if there is one."""
        self._at.pop((timer, task), None)

    def next(self) -> float | None:
        """The earliest deadline."""
        return min(self._at.values(), default=None)

    def due(self, now: float) -> list[Key]:
        """Take out the deadlines that have come, earliest first."""
        keys = sorted((key for key, at in self._at.items() if at <= now), key=self._at.__getitem__)
        for key in keys:
            del self._at[key]
        return keys
