"""Named deadlines, which can be suspended while tasks are held in the debugger."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from heapq import heappop, heappush

from clusterkit.words.model import Task


class Timer(enum.Enum):
    """The purpose of a deadline."""

    KILL = "the grace period of a task"
    DEATH = "the death of a task that was sent SIGKILL"
    DRAIN = "the end of a task's output"
    STARTUP = "the startup of a task"
    STALL = "the next look at progress"
    STRAGGLER = "the next look at the tasks' paces"
    EXIT = "the exit of a task whose program has ended"
    EARLY_EXIT = "the next step after a task has exited early"
    LONE_TRAINING = "the look at tasks that may train alone"
    UNREPORTED_STEPS = "the first step, for which an option or a fault waits"
    JOB = "the time of the whole job"
    FINISH = "the time of the other tasks after the leader's success"
    HEAD_START = "the coordinator's start after the start of its servers"
    EVALUATOR = "the evaluator's time after the leader's success"
    READINESS = "the next check whether tasks are ready"
    LATE_START = "the start of a task that is held back"


# Deadlines that are suspended while a task is held in the debugger.
SUSPENDABLE = frozenset(
    {Timer.STARTUP, Timer.STALL, Timer.EARLY_EXIT, Timer.UNREPORTED_STEPS, Timer.JOB, Timer.FINISH, Timer.EVALUATOR}
)

Key = tuple[Timer, Task | None]
Deadline = tuple[float, int]  # the time, and a unique number, which keeps the heap from comparing keys


class Timers:
    """At most one deadline for each key, in seconds of the monotonic clock.

    The heap also keeps moved and cleared deadlines, which are skipped when they reach the top, so that moving a
    deadline requires no search.
    """

    def __init__(self) -> None:
        self._deadlines: dict[Key, Deadline] = {}
        self._heap: list[tuple[Deadline, Key]] = []
        self._last_number = 0
        self._suspended_before: dict[Key, float] = {}  # the value of `suspended` when a deadline was set
        self.suspended = 0.0  # total seconds for which deadlines were suspended

    def set(self, timer: Timer, at: float, task: Task | None = None) -> None:
        self._last_number += 1
        deadline = self._deadlines[timer, task] = (at, self._last_number)
        heappush(self._heap, (deadline, (timer, task)))
        if timer in SUSPENDABLE:
            self._suspended_before[timer, task] = self.suspended

    def bring_forward(self, timer: Timer, at: float, task: Task) -> None:
        """Bring a deadline forward to `at`, if it is set to a later time."""
        if (deadline := self._deadlines.get((timer, task))) is not None and at < deadline[0]:
            self.set(timer, at, task)

    def is_set(self, timer: Timer, task: Task | None = None) -> bool:
        """Return whether the deadline is set and has not been returned by `pop_due`."""
        return (timer, task) in self._deadlines

    def clear(self, timer: Timer, task: Task | None = None) -> None:
        self._deadlines.pop((timer, task), None)

    def next_deadline(self) -> float | None:
        while self._heap:
            deadline, key = self._heap[0]
            if self._deadlines.get(key) == deadline:
                return deadline[0]
            heappop(self._heap)
        return None

    def pop_due(self, now: float) -> list[Key]:
        """Remove and return the deadlines that have passed, earliest first. Postpone those that were suspended."""
        keys = []
        while (at := self.next_deadline()) is not None and at <= now:
            _, key = heappop(self._heap)
            del self._deadlines[key]
            if (owed := self.suspended - self._suspended_before.pop(key, self.suspended)) > 0:
                self.set(key[0], at + owed, key[1])
            else:
                keys.append(key)
        return keys


@dataclass(slots=True)
class DebuggerHolds:
    """The tasks held in the debugger. Meanwhile their peers wait for them, and no progress can be expected."""

    tasks: set[Task] = field(default_factory=set)
    since: float = 0.0  # when the first of the current tasks was held
    earlier_seconds: float = 0.0  # total seconds of earlier holds

    def enter(self, task: Task, now: float) -> None:
        if not self.tasks:
            self.since = now
        self.tasks.add(task)

    def leave(self, task: Task, now: float) -> bool:
        """Release the task; return True if the task was held, and no other task is still held."""
        if task not in self.tasks:
            return False
        self.tasks.discard(task)
        if not self.tasks:
            self.earlier_seconds += now - self.since
        return not self.tasks

    def seconds(self, now: float) -> float:
        """Return the total time for which at least one task was held."""
        return self.earlier_seconds + (now - self.since if self.tasks else 0.0)
