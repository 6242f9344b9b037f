"""Latecomers: tasks whose next start is held back on purpose."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from clusterkit.machine.board import Board
from clusterkit.machine.timers import Timer
from clusterkit.words.actions import Spawn, Withdraw
from clusterkit.words.model import Task


@dataclass(slots=True)
class Latecomers:
    """Takes the Spawn of an expected task out of the actions, and puts it back when its time has come."""

    board: Board
    expected: dict[Task, float] = field(default_factory=dict)  # by how many seconds
    held: dict[Task, Spawn] = field(default_factory=dict)

    def expect(self, tasks: Iterable[Task], seconds: float) -> None:
        """Hold the next start of these tasks back."""
        self.expected.update(dict.fromkeys(tasks, seconds))

    def is_late(self, task: Task) -> bool:
        """Whether the task's start is held back, or will be."""
        return task in self.expected or task in self.held

    def hurry(self, tasks: Iterable[Task]) -> None:
        """Let them start after all."""
        for task in tasks:
            self.expected.pop(task, None)
            self.let_go(task)

    def let_go(self, task: Task) -> None:
        """Its time has come."""
        if task in self.held:
            self.board.late.discard(task)
            self.board.timers.clear(Timer.LATE_START, task)
            self.board.out.insert(0, self.held.pop(task))  # before what else is asked of it

    def settle(self) -> None:
        """Hold back what has just been asked for; a task that is to end must exist for that."""
        for action in list(self.board.out):
            if isinstance(action, Spawn) and action.task in self.expected:
                self.board.out.remove(action)
                self.held[action.task] = action
                self.board.late.add(action.task)
                seconds = self.expected.pop(action.task)
                self.board.timers.set(Timer.LATE_START, self.board.now + seconds, action.task)
            elif isinstance(action, Withdraw):
                self.let_go(action.task)
