"""Joins the sentences about tasks that start or fail in the same way at about the same time, on a terminal."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusterkit.text.printable import printable
from clusterkit.views.naming import all_failed, few, named
from clusterkit.views.narrate import sentence
from clusterkit.words.events import Event, Failed, Spawned

WITHIN = 0.7  # seconds; how long a sentence waits for similar sentences


@dataclass(slots=True)
class Gathering:
    """Holds events of tasks that started or failed in the same way, for WITHIN seconds or until a different sentence.

    Failures stay held while tasks print output, since a task's last output may arrive after another task has ended.
    """

    _held: list[Spawned | Failed] = field(default_factory=list)
    _since: float = 0.0

    @property
    def due_at(self) -> float | None:
        """The latest time at which `drain` has to be called; None if no event is held."""
        return self._since + WITHIN if self._held else None

    @property
    def has_starts(self) -> bool:
        """Whether starts are held. The sentence about these starts has to precede the tasks' output."""
        return bool(self._held) and isinstance(self._held[0], Spawned)

    @staticmethod
    def joinable(event: Event) -> Spawned | Failed | None:
        if isinstance(event, Spawned):
            return event
        return event if isinstance(event, Failed) and not event.failure.exit.ok else None

    def is_like(self, event: Spawned | Failed) -> bool:
        return not self._held or _kind(self._held[0]) == _kind(event)

    def take(self, event: Spawned | Failed, now: float) -> None:
        self._since = self._since if self._held else now
        self._held.append(event)

    def drain(self) -> list[tuple[str, bool]]:
        """Release the held events; return their sentence, and whether the sentence is about a failure."""
        held, self._held = self._held, []
        return [(_sentence(held), isinstance(held[0], Failed))] if held else []


def _kind(event: Spawned | Failed) -> tuple[object, ...]:
    if isinstance(event, Spawned):
        return (Spawned, event.attempt, event.where.partition(" ")[0])
    return (Failed, event.failure.attempt, str(event.failure.exit))


def _sentence(events: list[Spawned | Failed]) -> str:
    starts = [event for event in events if isinstance(event, Spawned)]
    if len(events) == 1:
        told = sentence(events[0])
        return told[1] if told else ""
    if not starts:
        (line,) = all_failed([event.failure for event in events if isinstance(event, Failed)])
        return f"{line}."
    again = f", attempt {starts[0].attempt}" if starts[0].attempt > 1 else ""
    pids = all(event.where.startswith("pid ") for event in starts)
    where = "pids " * pids + ", ".join(few([event.where.removeprefix("pid " * pids) for event in starts]))
    return printable(f"{named([event.task for event in starts])} are started{again} ({where}).")
