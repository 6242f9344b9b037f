"""What can be looked for in a journal."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from clusterkit.words import events as ev
from clusterkit.words import wire

Predicate = Callable[[ev.Event], bool]
Wanted = str | type[Any] | Predicate  # an event's name, its class, or what says whether it is one


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
