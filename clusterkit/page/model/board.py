"""The board: the entities and curves of a run. Finds the entities that changed since a client last received them."""

from __future__ import annotations

import json
import math
import statistics
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Any

from clusterkit.words import wire

MOST_GONE = 20_000  # the maximum number of removed entities that are remembered, for clients that still show them
FINEST = 0.05  # seconds; the initial width of a curve's buckets
MOST_BUCKETS = 2048  # the maximum number of buckets of a curve, unless BUDGET is exceeded
FEWEST_BUCKETS = 64  # the maximum number of buckets of a curve in a run with very many curves
BUDGET = 400_000  # if all curves of a run together have more buckets than this, each curve is shrunk
MOST_CURVES = 4000  # the maximum number of curves of a run
LONGEST_NAME = 200  # the maximum length of a curve's name, in characters
Points = dict[str, list[float]]


@dataclass(slots=True)
class BoardEntry:
    """An entity on the board; `entity` is None if the entity was removed."""

    entity: Any
    offset: int  # the journal offset after the line that last changed the entity
    version: int  # the board's version after that change
    always: bool  # True if the entity depends on more than the journal, so clients that reconnect get the entity
    _text: str | None = None

    @property
    def text(self) -> str:
        """The entity as JSON, encoded once for all clients."""
        if self._text is None:
            self._text = json_text(self.entity)
        return self._text


class Board:
    """Maps keys to entities, in the order of their last changes. Each change increases `version` by 1."""

    def __init__(self) -> None:
        self.version = 0
        self._entries: dict[str, BoardEntry] = {}
        self._gone = 0

    def put(self, key: str, entity: Any, offset: int, always: bool = False) -> None:
        """Set the entity of a key; None removes the entity. Setting an equal entity is not a change."""
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
        self._entries[key] = BoardEntry(entity, offset, self.version, always or (old is not None and old.always))
        if self._gone > MOST_GONE:
            self._forget()

    def get(self, key: str) -> Any:
        return self._entries[key].entity if key in self._entries else None

    def entities(self) -> dict[str, Any]:
        return {key: entry.entity for key, entry in self._entries.items() if entry.entity is not None}

    def all(self) -> dict[str, BoardEntry]:
        return {key: entry for key, entry in self._entries.items() if entry.entity is not None}

    def since_version(self, version: int) -> dict[str, BoardEntry]:
        changed = takewhile(lambda key: self._entries[key].version > version, reversed(self._entries))
        return {key: self._entries[key] for key in changed}

    def since_offset(self, offset: int) -> dict[str, BoardEntry]:
        """Return the entries that changed after a journal offset, which may come from another board of the same run."""
        return {key: entry for key, entry in self._entries.items() if entry.always or entry.offset > offset}

    def _forget(self) -> None:
        """Forget the older half of the removed entities."""
        gone = [key for key, entry in self._entries.items() if entry.entity is None]
        for key in gone[: len(gone) // 2]:
            del self._entries[key]
        self._gone -= len(gone) // 2


def json_text(entity: Any) -> str:
    """Encode an entity as standard JSON, in which NaN and infinity become null."""
    value = wire.encode(entity)
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"))


def map_text(entries: dict[str, BoardEntry]) -> str:
    return "{" + ",".join(f"{json.dumps(key)}:{entry.text}" for key, entry in entries.items()) + "}"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


class Curve:
    """A curve, divided into buckets of time. A bucket stores its last point, its lowest value and its highest value."""

    def __init__(self) -> None:
        self.count = 0
        self.last: float | None = None
        self._begin(FINEST)

    def __len__(self) -> int:
        return len(self._times)

    def add(self, at: float, value: float, most: int = MOST_BUCKETS) -> None:
        """Add a point. A time before the last point's time is replaced by the last point's time."""
        self.count += 1
        self.last = value
        times = self._times
        if times and at < times[-1]:
            at = times[-1]
        self._put(at, value, value, value)
        if len(times) > most:
            self.shrink(most)

    def shrink(self, limit: int) -> None:
        """Double the width of the buckets until the curve has at most `limit` buckets."""
        while len(self._times) > limit:
            columns = self._columns
            self._begin(2 * self._width)
            for point in zip(*columns, strict=True):
                self._put(*point)

    def points(self, begin: float, end: float, limit: int) -> Points:
        """Return the points in a time range and one point on either side, merged into at most `limit` points."""
        first, last = bisect_left(self._times, begin), bisect_right(self._times, end)
        chosen = range(max(0, min(first, last) - 1), min(len(self._times), last + 1))
        step = max(1, math.ceil(len(chosen) / max(1, limit)))
        groups = [chosen[number : number + step] for number in range(0, len(chosen), step)]
        return {
            "t": [round(self._times[group[-1]], 3) for group in groups],
            "v": [self._values[group[-1]] for group in groups],
            "low": [min(self._lows[number] for number in group) for group in groups],
            "high": [max(self._highs[number] for number in group) for group in groups],
        }

    def usual(self, limit: int) -> float:
        """Return the median time in seconds between points, after thinning the curve to at most `limit` points."""
        times = self._times[:: max(1, math.ceil(len(self._times) / max(1, limit)))]
        return statistics.median(b - a for a, b in pairwise(times)) if len(times) > 1 else 0.0

    def _begin(self, width: float) -> None:
        self._width = width
        self._bucket: float = math.nan  # the number of the bucket that contains the last point
        self._columns = self._times, self._values, self._lows, self._highs = tuple(array("d") for _ in range(4))

    def _put(self, at: float, value: float, low: float, high: float) -> None:
        bucket = math.floor(at / self._width)
        if bucket == self._bucket:
            self._times[-1], self._values[-1] = at, value
            self._lows[-1], self._highs[-1] = min(self._lows[-1], low), max(self._highs[-1], high)
            return
        self._bucket = bucket
        for column, one in zip(self._columns, (at, value, low, high), strict=True):
            column.append(one)


@dataclass(slots=True)
class Curves:
    """The curves of a run, each for a metric of a task. Limits the total number of buckets."""

    _curves: dict[tuple[str, str], Curve] = field(default_factory=dict)
    _most: int = MOST_BUCKETS
    _buckets: int = 0

    def add(self, name: str, task: str, at: float, value: float) -> bool:
        """Add a point. Return False if its value is not finite, or if a new curve would exceed MOST_CURVES."""
        if not math.isfinite(value):
            return False
        key = (name[:LONGEST_NAME], task)
        if (curve := self._curves.get(key)) is None:
            if len(self._curves) >= MOST_CURVES:
                return False
            curve = self._curves[key] = Curve()
        before = len(curve)
        curve.add(at, value, self._most)
        self._buckets += len(curve) - before
        if self._buckets > BUDGET and self._most > FEWEST_BUCKETS:
            self._narrow()
        return True

    def get(self, name: str, task: str) -> Curve | None:
        return self._curves.get((name[:LONGEST_NAME], task))

    def keys(self) -> Iterator[tuple[str, str]]:
        return iter(self._curves)

    def _narrow(self) -> None:
        self._most //= 2
        for curve in self._curves.values():
            curve.shrink(self._most)
        self._buckets = sum(map(len, self._curves.values()))
