"""Which tasks were slower than their peers, and for how long: a fold over what the machine decided."""

from __future__ import annotations

from dataclasses import replace

from clusterkit.words import events as ev
from clusterkit.words.model import Task
from clusterkit.words.stragglers import Straggler


class StragglerFold:
    """Takes each event of a run with its time in seconds."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._open: dict[Task, Straggler] = {}
        self._over: list[Straggler] = []

    def take(self, at: float, event: ev.Event) -> None:
        """Take in an event."""
        self._began = at if self._began is None else self._began
        now = at - self._began
        match event:
            case ev.Straggling(task, attempt, slowness, factor, seconds, why):
                self._open[task] = Straggler(task, attempt, max(0.0, now - seconds), slowness, factor, why)
            case ev.KeepsUp(task) | ev.Exited(task):
                self._close(task, now)
            case ev.Continued():  # no process of the allocations before is left
                for task in list(self._open):
                    self._close(task, now)

    def report(self) -> tuple[Straggler, ...]:
        """What is known so far, in the order in which they became slow."""
        return tuple(sorted([*self._over, *self._open.values()], key=lambda one: (one.at, one.task)))

    def _close(self, task: Task, now: float) -> None:
        if (one := self._open.pop(task, None)) is not None:
            self._over.append(replace(one, until=now))
