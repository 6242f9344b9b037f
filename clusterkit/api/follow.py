"""Following a journal that grows, and what can be looked for in it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from clusterkit.words import events as ev
from clusterkit.words import wire

Predicate = Callable[[ev.Event], bool]
Wanted = str | type[Any] | Predicate  # an event's name, its class, or what says whether it is one


class Follower:
    """Reads a journal from its beginning, each event once."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._offset = 0

    def new(self) -> Iterator[ev.Event]:
        """What has come since the last time. A line that is not whole yet comes later."""
        try:
            with self._journal.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        for line in data.split(b"\n")[:-1]:
            self._offset += len(line) + 1
            yield wire.decode_event(json.loads(line))


def matcher(wanted: Wanted, fields: dict[str, Any]) -> Predicate:
    """Whether an event is wanted: by its kind, or a function, and by fields as the journal has them.

    Raises TypeError for a kind that there is none of, or that has no such field.
    """
    kind = wire.kind_named(wanted) if isinstance(wanted, str) else wanted
    if not isinstance(kind, type):
        predicate = kind
        return lambda event: predicate(event) and _has(event, fields)
    present = [field.name for field in dataclasses.fields(kind)]
    unknown = [name for name in fields if name not in present]
    if unknown:
        raise TypeError(f"{kind.__name__} has no {unknown[0]!r}. It has {', '.join(present) or 'no fields'}.")
    return lambda event: isinstance(event, kind) and _has(event, fields)


def told(wanted: Wanted, fields: dict[str, Any]) -> str:
    """What is looked for, in words."""
    name = wanted if isinstance(wanted, str) else getattr(wanted, "__name__", "such an event")
    return f"{name} with {', '.join(f'{key}={value}' for key, value in fields.items())}" if fields else name


def _has(event: ev.Event, fields: dict[str, Any]) -> bool:
    wanted = {name: wire.encode(value) for name, value in fields.items()}
    return all(hasattr(event, name) and wire.encode(getattr(event, name)) == value for name, value in wanted.items())
