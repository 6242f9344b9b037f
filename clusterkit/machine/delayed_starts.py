"""Latecomers: tasks whose next start is held back on purpose."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from clusterkit.machine.cluster_state import ClusterState
from clusterkit.machine.timers import Timer
from clusterkit.words.actions import Spawn, Withdraw
from clusterkit.words.model import Task


@dataclass(frozen=True, slots=True)
class Held:
    """A start that is held back, by each of these faults until its time."""

    spawn: Spawn
    until: dict[int, float]


@dataclass(slots=True)
class DelayedStarts:
    """Takes the Spawn of an expected task out of the actions, and puts it back when the last fault's time has come."""

    state: ClusterState
    expected: dict[Task, dict[int, float]] = field(default_factory=dict)  # by which faults, for how many seconds
    held: dict[Task, Held] = field(default_factory=dict)
    released: set[Task] = field(default_factory=set)  # by this event: their start is not held back once more

    def expect(self, number: int, tasks: Iterable[Task], seconds: float) -> None:
        """Hold the next start of these tasks back, for the fault with that number."""
        for task in tasks:
            self.expected.setdefault(task, {})[number] = seconds

    def is_late(self, number: int, task: Task) -> bool:
        """Whether the fault holds the task's start back, or will."""
        return number in self.expected.get(task, ()) or self.is_held(number, task)

    def is_held(self, number: int, task: Task) -> bool:
        """Whether the fault holds the task's start back now."""
        return task in self.held and number in self.held[task].until

    def hurry(self, number: int, tasks: Iterable[Task]) -> None:
        """The fault holds no start of these tasks back any more."""
        for task in tasks:
            self.expected.get(task, {}).pop(number, None)
            if self.is_held(number, task):
                del self.held[task].until[number]
                self._wait(task)

    def let_go(self, task: Task) -> None:
        """Its time has come."""
        if task in self.held:
            self.state.late.discard(task)
            self.state.timers.clear(Timer.LATE_START, task)
            self.released.add(task)
            self.state.out.insert(0, self.held.pop(task).spawn)  # before what else is asked of it

    def settle(self) -> None:
        """Hold back what has just been asked for; a task that is to end must exist for that."""
        for action in list(self.state.out):
            if isinstance(action, Spawn) and action.task not in self.released:
                self._hold(action)
            elif isinstance(action, Withdraw):
                self.let_go(action.task)
        self.released.clear()

    def _hold(self, spawn: Spawn) -> None:
        if seconds := self.expected.pop(spawn.task, None):
            self.state.out.remove(spawn)
            self.held[spawn.task] = Held(spawn, {number: self.state.now + s for number, s in seconds.items()})
            self.state.late.add(spawn.task)
            self._wait(spawn.task)

    def _wait(self, task: Task) -> None:
        if until := self.held[task].until:
            self.state.timers.set(Timer.LATE_START, max(until.values()), task)
        else:
            self.let_go(task)
