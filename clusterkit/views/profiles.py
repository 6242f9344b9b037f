"""Requested profiles: the tasks' answers to a request, folded from the events since the request."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusterkit.words.events import Event, Exited, Profiled
from clusterkit.words.model import Task


@dataclass(slots=True)
class Answers:
    """The answers to one request."""

    request: int
    waiting: set[Task]
    given: dict[Task, Profiled] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Process an event. A task that exits before it answers gives no profile."""
        if isinstance(event, Profiled) and event.request == self.request:
            self._give(event)
        elif isinstance(event, Exited) and event.task in self.waiting:
            self._give(Profiled(event.task, event.attempt, self.request, None, why="it ended before that"))

    def close(self, why: str) -> None:
        """Stop waiting: record that each task without an answer gave no profile, with the reason `why`."""
        for task in list(self.waiting):
            self._give(Profiled(task, 0, self.request, None, why=why))

    @property
    def in_order(self) -> list[Profiled]:
        """The answers, ordered by task."""
        return [self.given[task] for task in sorted(self.given)]

    def _give(self, event: Profiled) -> None:
        if event.task in self.waiting:
            self.waiting.remove(event.task)
            self.given[event.task] = event
