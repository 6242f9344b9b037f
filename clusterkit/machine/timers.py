"""Named deadlines, which can be suspended while tasks are held: in the debugger, or paused on request."""

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


# Deadlines that are suspended while a task is paused on request. The job's own deadline is not among them: it is the
# limit on which a test or a batch job relies, whatever somebody has paused.
PAUSABLE = frozenset({Timer.STARTUP, Timer.STALL, Timer.EARLY_EXIT, Timer.UNREPORTED_STEPS})
# Deadlines that are suspended while a task is held in the debugger, or the terminal has stopped the run.
SUSPENDABLE = PAUSABLE | {Timer.JOB, Timer.FINISH, Timer.EVALUATOR}

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
        self._suspended_before: dict[Key, float] = {}  # the seconds of suspension when a deadline was set
        self.halted = 0.0  # total seconds for which tasks were held in the debugger, or by the terminal
        self.held = 0.0  # total seconds for which tasks were held for any reason

    def set(self, timer: Timer, at: float, task: Task | None = None) -> None:
        self._last_number += 1
        deadline = self._deadlines[timer, task] = (at, self._last_number)
        heappush(self._heap, (deadline, (timer, task)))
        if timer in SUSPENDABLE:
            self._suspended_before[timer, task] = self.suspended(timer)

    def suspended(self, timer: Timer) -> float:
        """Return the total seconds for which deadlines with this purpose were suspended."""
        return self.held if timer in PAUSABLE else self.halted

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
            suspended = self.suspended(key[0])
            owed = suspended - self._suspended_before.pop(key, suspended)
            if owed > 0:
                self.set(key[0], at + owed, key[1])
            else:
                keys.append(key)
        return keys


class HoldReason(enum.Enum):
    """Why no progress can be expected of a task, although nothing is wrong."""

    DEBUGGER = "held in the debugger"
    PAUSE = "paused on request"
    TERMINAL = "stopped with the terminal's foreground job"


Hold = tuple[HoldReason, Task]


@dataclass(slots=True)
class Holds:
    """The tasks that are held. Meanwhile their peers wait for them, and no progress can be expected."""

    current: set[Hold] = field(default_factory=set)
    since: float = 0.0  # when the first of the current holds began
    earlier_seconds: float = 0.0  # total seconds of earlier holds
    ended_at: float = 0.0  # when the last hold ended

    def enter(self, hold: Hold, now: float) -> None:
        if not self.current:
            self.since = now
        self.current.add(hold)

    def leave(self, hold: Hold, now: float) -> bool:
        """End a hold; return True if it was current, and no other hold is left."""
        if hold not in self.current:
            return False
        self.current.discard(hold)
        if not self.current:
            self.earlier_seconds += now - self.since
            self.ended_at = now
        return not self.current

    def seconds(self, now: float) -> float:
        """Return the total time for which at least one task was held."""
        return self.earlier_seconds + (now - self.since if self.current else 0.0)
