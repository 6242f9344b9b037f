"""Which tasks were slower than their peers, and for how long."""

from __future__ import annotations

from dataclasses import replace

from clusterkit.words.account import Straggler
from clusterkit.words.events import Straggling
from clusterkit.words.model import Task


class Stragglers:
    """The stragglers of a run. Times in seconds since it began."""

    def __init__(self) -> None:
        self._open: dict[Task, Straggler] = {}
        self._over: list[Straggler] = []

    def report(self) -> tuple[Straggler, ...]:
        """What is known so far, in the order in which they became slow."""
        return tuple(sorted([*self._over, *self._open.values()], key=lambda one: (one.at, one.task)))

    def begin(self, now: float, event: Straggling) -> Straggler:
        """A task is slower than its peers."""
        at = max(0.0, now - event.seconds)
        one = Straggler(event.task, event.attempt, at, event.slowness, event.factor, event.why)
        self._open[event.task] = one
        return one

    def end(self, now: float, task: Task) -> None:
        """A task is not slower any more, or has ended."""
        if (one := self._open.pop(task, None)) is not None:
            self._over.append(replace(one, until=now))

    def lose(self, now: float) -> None:
        """The run continues in another allocation, so no process is left."""
        for task in list(self._open):
            self.end(now, task)
