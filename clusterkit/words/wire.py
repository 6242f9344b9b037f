"""Words as JSON and back: for the journal, job.json, result.json, and whatever travels between processes."""

from __future__ import annotations

import dataclasses
import difflib
import enum
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any

from clusterkit.words import events
from clusterkit.words.model import Task

_KINDS: dict[str, type] = {kind.__name__: kind for kind in typing.get_args(events.Event)}
_PLAIN = frozenset({str, int, float, bool, type(None)})


def encode(value: Any) -> Any:
    """A word as what `json` can write; a task as `worker:1`."""
    kind: type = type(value)
    if kind in _PLAIN:
        return value
    if kind is Task:
        return str(value)
    if (names := _fields(kind)) is not None:
        return {name: encode(getattr(value, name)) for name in names}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(encode(key)): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [encode(item) for item in value]
    return value


def encode_event(event: events.Event) -> dict[str, Any]:
    """An event with its kind: `{"event": "Exited", "task": "worker:1", ...}`."""
    return {"event": type(event).__name__, **encode(event)}


def decode_event(message: Mapping[str, Any]) -> events.Event:
    """The event that was encoded. Raises ValueError for what is none."""
    fields = {key: value for key, value in message.items() if key != "event"}
    kind = _KINDS.get(message.get("event", ""))
    if kind is None:
        raise ValueError(f"{message.get('event')!r} is not an event.")
    try:
        event: events.Event = _decode(kind, {name: fields[name] for name in _hints(kind) if name in fields})
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"{message.get('event')} has wrong or missing fields: {error}.") from None
    return event


def kind_named(name: str) -> type:
    """The class of an event. Raises TypeError where there is none of that name."""
    if name not in _KINDS:
        close = difflib.get_close_matches(name, _KINDS, 1)
        hint = f"Did you mean {close[0]}?" if close else f"There are {', '.join(_KINDS)}."
        raise TypeError(f"There is no event {name!r}. {hint}")
    return _KINDS[name]


def decode(kind: type[Any], value: Any) -> Any:
    """A word of the given kind from what `encode` made of it."""
    return _decode(kind, value)


@functools.cache
def _fields(kind: type) -> tuple[str, ...] | None:
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode(hint: Any, value: Any) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else _decode(next(arg for arg in args if arg is not type(None)), value)
    if origin is tuple:
        return tuple(_decode(args[0], item) for item in value)
    if origin is not None and issubclass(origin, Mapping):
        if args[0] is str:
            return dict(value)
        return {_decode(args[0], key): _decode(args[1], item) for key, item in value.items()}
    if hint is Task:
        return Task.parse(value)
    if dataclasses.is_dataclass(hint):
        names = _hints(typing.cast(type, hint))
        return typing.cast(type, hint)(**{name: _decode(names[name], item) for name, item in value.items()})
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    return value
