"""Encodes values of this package in JSON, for the journal, job.json, result.json and messages between processes."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from clusterkit.text.spelling import did_you_mean
from clusterkit.words import events
from clusterkit.words.errors import BadJob
from clusterkit.words.faults import Fault
from clusterkit.words.model import Tagged, Task

LATEST = 1e11  # seconds since 1970; `datetime` may not be able to represent later times
Decoder = Callable[[Any], Any]
_KINDS: dict[str, type[Tagged]] = {kind.kind: kind for kind in typing.get_args(events.Event)}
_PLAIN = frozenset({str, int, float, bool, type(None)})


def encode(value: Any) -> Any:
    """Convert a value so that `json` can write it. A task becomes a text such as `worker:1`, and a fault its text."""
    kind: type = type(value)
    if kind in _PLAIN:
        return value
    if kind in _TEXTS:
        return str(value)
    names = _fields(kind)
    if names is not None:
        fields = {}
        for name in names:
            field = getattr(value, name)
            fields[name] = field if type(field) in _PLAIN else encode(field)  # most fields are plain
        return fields
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(encode(key)): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [encode(item) for item in value]
    return value


def encode_event(event: events.Event) -> dict[str, Any]:
    """Encode an event with its kind, as in `{"event": "Exited", "task": "worker:1", ...}`."""
    return {"event": event.kind, **encode(event)}


def decode_event(message: Mapping[str, Any]) -> events.Event:
    """Decode an event. Raises ValueError if the message is not an encoded event."""
    kind = _KINDS.get(message.get("event", ""))
    if kind is None:
        raise ValueError(f"{message.get('event')!r} is not an event.")
    event: events.Event = decode(kind, message)
    return event


def kind_named(name: str) -> type:
    """Return the event class with this name. Raises TypeError if the name is unknown."""
    if name not in _KINDS:
        raise TypeError(f"There is no event {name!r}. {did_you_mean(name, _KINDS)}")
    return _KINDS[name]


def decode(kind: Any, value: Any) -> Any:
    """Decode a value of the given type. Raises ValueError if `value` is not an encoded value of the type."""
    try:
        return _decoder(kind)(value)
    except TypeError as error:
        raise ValueError(f"{kind.__name__} has wrong or missing fields: {error}.") from None


def _fault(text: str) -> Fault:
    from clusterkit.words.grammar import parse_fault  # imported here, since most jobs have no faults

    try:
        return parse_fault(text)
    except BadJob as error:
        raise ValueError(str(error)) from None


# The decoders of types that are encoded as text. Equal tasks decode to one object, so dictionary look-ups are fast.
_TEXTS: Mapping[type, Decoder] = {Task: functools.lru_cache(4096)(Task.parse), Fault: _fault}


@functools.cache
def _fields(kind: type) -> tuple[str, ...] | None:
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


@functools.cache
def _decoder(hint: Any) -> Decoder:
    """Return a function that decodes values of a type. The functions are cached, since a journal has many values."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        some = _decoder(next(arg for arg in args if arg is not type(None)))
        return lambda value: None if value is None else some(value)
    if origin is tuple:
        item = _decoder(args[0])
        return lambda value: tuple(map(item, _checked(value, list)))
    if origin is not None and issubclass(origin, Mapping):
        key, item = _decoder(args[0]), _decoder(args[1])
        return lambda value: {key(name): item(entry) for name, entry in _checked(value, dict).items()}
    if hint is Any:
        return lambda value: value
    if hint in _TEXTS:
        parse = _TEXTS[hint]
        return lambda value: parse(_checked(value, str))
    if dataclasses.is_dataclass(hint):
        return _dataclass(typing.cast(type, hint))
    if issubclass(hint, enum.Enum):
        return typing.cast(Decoder, hint)
    kinds = (int, float) if hint is float else hint
    return lambda value: value if type(value) is hint else _checked(value, kinds)


def _dataclass(kind: type) -> Decoder:
    hints = typing.get_type_hints(kind)
    decoders = {field.name: _decoder(hints[field.name]) for field in dataclasses.fields(kind)}

    def decode(value: Any) -> Any:  # ignores unknown fields, which newer versions may add
        return kind(**{name: decoders[name](item) for name, item in _checked(value, dict).items() if name in decoders})

    return decode


def _checked(value: Any, kinds: type | tuple[type, ...]) -> Any:
    if isinstance(value, kinds) and (kinds is bool or not isinstance(value, bool)):
        return value
    raise TypeError(f"{value!r:.80} is not of type {getattr(kinds, '__name__', 'float')}")
