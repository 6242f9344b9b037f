"""Delayed starts: the next start of a task is held back by a fault, for some time from its moment on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from clusterkit.machine.cluster_state import ClusterState
from clusterkit.machine.timers import Timer
from clusterkit.words.model import Task

Delays = dict[Task, dict[int, float]]  # by fault


@dataclass(slots=True)
class DelayedStarts:
    """Faults by their numbers. A start that several of them hold back comes when the last one's time has come."""

    state: ClusterState
    expected: Delays = field(default_factory=dict)  # for how many seconds the next start is to be held back
    until: Delays = field(default_factory=dict)  # the time at which each fault lets the present start go
    came: set[int] = field(default_factory=set)  # the faults that have held a start back

    def expect(self, number: int, tasks: Iterable[Task], seconds: float) -> None:
        """Hold the next start of these tasks back, for the fault with that number."""
        for task in tasks:
            self.expected.setdefault(task, {})[number] = seconds

    def reasons(self, task: Task) -> set[int]:
        """The faults that hold this start back."""
        if not (seconds := self.expected.pop(task, None)):
            return set()
        self.until[task] = {number: self.state.now + s for number, s in seconds.items()}
        self.state.timers.set(Timer.LATE_START, self.state.now + max(seconds.values()), task)
        self.came.update(seconds)
        return set(seconds)

    def is_late(self, number: int, task: Task) -> bool:
        """Whether the fault holds the task's start back, or will."""
        return number in self.expected.get(task, ()) or number in self.state.records[task].held_by

    def hurry(self, number: int, tasks: Iterable[Task]) -> None:
        """The fault holds no start of these tasks back any more."""
        for task in tasks:
            self.expected.get(task, {}).pop(number, None)
            if number in self.state.records[task].held_by:
                del self.until[task][number]
                self.state.release(task, number)
                if until := self.until[task]:
                    self.state.timers.set(Timer.LATE_START, max(until.values()), task)

    def due(self, task: Task) -> None:
        """Its time has come."""
        self.state.release(task, *self.until.pop(task, ()))
