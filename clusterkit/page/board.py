"""The board: the entities that a run is shown as, and which of them changed since a client saw them last."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from clusterkit.words import wire

MOST_GONE = 20_000  # entities that are remembered as removed


@dataclass(slots=True)
class Entry:
    """An entity, None if it was removed.

    `offset` is that of the journal's line that changed it last, `version` the count of changes of the board by then.
    `always`: it does not depend on the journal alone, so that a client that connects again gets it in any case.
    """

    entity: Any
    offset: int
    version: int
    always: bool
    _text: str | None = None

    @property
    def text(self) -> str:
        """The entity as JSON; made once for all clients."""
        if self._text is None:
            self._text = json_text(self.entity)
        return self._text


class Board:
    """Entities by their keys, in the order of their last changes."""

    def __init__(self) -> None:
        self.version = 0
        self._entries: dict[str, Entry] = {}
        self._gone = 0

    def __len__(self) -> int:
        return len(self._entries) - self._gone

    def put(self, key: str, entity: Any, offset: int, always: bool = False) -> None:
        """Set an entity, or remove it with None. One that is the same as before did not change."""
        old = self._entries.get(key)
        if old is None and entity is None:
            return
        if old is not None and old.entity == entity:
            old.always |= always
            return
        self.version += 1
        if old is not None:
            del self._entries[key]
            self._gone -= old.entity is None
        self._gone += entity is None
        self._entries[key] = Entry(entity, offset, self.version, always or (old is not None and old.always))
        if self._gone > MOST_GONE:
            self._forget()

    def get(self, key: str) -> Any:
        return self._entries[key].entity if key in self._entries else None

    def entities(self) -> dict[str, Any]:
        return {key: entry.entity for key, entry in self._entries.items() if entry.entity is not None}

    def all(self) -> dict[str, Entry]:
        return {key: entry for key, entry in self._entries.items() if entry.entity is not None}

    def since_version(self, version: int) -> dict[str, Entry]:
        changed = takewhile(lambda key: self._entries[key].version > version, reversed(self._entries))
        return {key: self._entries[key] for key in changed}

    def since_offset(self, offset: int) -> dict[str, Entry]:
        """What changed after an offset of the journal, on this board or on another one of the same run."""
        return {key: entry for key, entry in self._entries.items() if entry.always or entry.offset > offset}

    def _forget(self) -> None:
        """Forget the older half of those that were removed."""
        gone = [key for key, entry in self._entries.items() if entry.entity is None]
        for key in gone[: len(gone) // 2]:
            del self._entries[key]
        self._gone -= len(gone) // 2


def json_text(entity: Any) -> str:
    """A word as JSON that every browser reads: what is no number is null."""
    value = wire.encode(entity)
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"))


def map_text(entries: dict[str, Entry]) -> str:
    return "{" + ",".join(f"{json.dumps(key)}:{entry.text}" for key, entry in entries.items()) + "}"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value
