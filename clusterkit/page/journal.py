"""Reads a journal of any length for the dashboard: in blocks, and of very many reports of progress only some."""

from __future__ import annotations

import math
import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import LATEST, JournalLine, parse_line, read_from
from clusterkit.words.events import Event

BLOCK = 1 << 22  # bytes that are read at a time
LONGEST = 1 << 26  # bytes of a line; a longer one is skipped
MANY = 400  # reports of an attempt in a block of which all are read
EDGE = 4  # of more, so many at the beginning and at the end
FEWEST = 8  # and so many between those, at least
BESIDE = 3  # and so many after anything else that happens
MOST_BETWEEN = 8000  # reports of a whole journal that are between others, about
MOST_LOOKS = 50_000  # for what is beside what in a block; where it would take more, all is read
# Within a JSON string, a quote has a backslash before it, so that this is the key of an event alone.
_KIND = re.compile(rb'"event": "(?:Progressed", "task": "([a-z]+:\d+", "attempt": \d+)|)')


class Happening(NamedTuple):
    """An event with the offset after its line, the time of the run's clock and the wall time."""

    offset: int
    clock: float
    wall: float
    event: Event


class JournalBlocks:
    """Reads each line once, a block at a time."""

    def __init__(self, run: RunDirectory) -> None:
        self._path = run.journal
        self.offset = 0  # where the next line begins
        self._skipping = False  # a line that is too long
        self._blocks = 1.0  # that there were at the first look

    def has_new(self) -> bool:
        """Whether the file has grown. Cheap enough to be asked many times a second."""
        return self._size() > self.offset

    def is_cut(self) -> bool:
        """Whether what was read is not there any more."""
        return self._size() < self.offset

    def next(self) -> list[Happening] | None:
        """The events of the next block; None if there is no whole line more."""
        data = self._block()
        if data is None:
            return None
        start, self.offset = self.offset, self.offset + len(data)
        if self._skipping:
            end = data.find(b"\n") + 1
            if not end:
                return []
            self._skipping, start, data = False, start + end, data[end:]
        self._blocks = max(self._blocks, self._size() / BLOCK) if start == 0 else self._blocks
        lines = _chosen(data, self._blocks)
        return [one for at, line in lines if (one := _happening(start + at, line)) is not None]

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def _block(self) -> bytes | None:
        """Whole lines; or the part of one that is too long."""
        size = BLOCK
        while True:
            data = read_from(self._path, self.offset, size)
            if end := data.rfind(b"\n") + 1:
                return data[:end]
            if self._skipping or len(data) > LONGEST:
                self._skipping = True
                return data or None
            if len(data) < size:
                return None
            size *= 4


def _happening(offset: int, line: bytes) -> Happening | None:
    message = parse_line(line)
    if message is None or (stamped := JournalLine(offset, message).event("m")) is None:
        return None
    wall = message.get("t")
    if not isinstance(wall, int | float) or not abs(wall) < LATEST:
        return None
    return Happening(offset, stamped[0], float(wall), stamped[1])


def _chosen(data: bytes, blocks: float) -> Iterator[tuple[int, bytes]]:
    """The lines that are read, each with the offset after it; `blocks` is how many there are.

    All but reports of progress, and of those the first and the last ones of each attempt in the block, the next to
    anything else that happened, and some between.
    """
    if data.count(b"\n") < MANY:
        yield from _all(data)
        return
    others, reports = list[int](), defaultdict[bytes, list[int]](list)
    for match in _KIND.finditer(data):
        if (key := match[1]) is None:
            others.append(match.start())
        else:
            reports[key].append(match.start())
    if len(others) * len(reports) > MOST_LOOKS or not any(len(places) > MANY for places in reports.values()):
        yield from _all(data)
        return
    kept, between = set(others), max(FEWEST, int(MOST_BETWEEN / len(reports) / blocks))
    for places in reports.values():
        kept.update(_thinned(places, others, between))
    for start in sorted({data.rfind(b"\n", 0, place) + 1 for place in kept}):
        end = data.index(b"\n", start)
        yield end + 1, data[start:end]


def _all(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    for line in data.split(b"\n")[:-1]:
        at += len(line) + 1
        yield at, line


def _thinned(places: Sequence[int], others: Sequence[int], between: int) -> Iterator[int]:
    step = max(1, math.ceil((len(places) - 2 * EDGE) / between))
    yield from places[:EDGE]
    yield from places[EDGE:-EDGE:step]
    yield from places[-EDGE:]
    for other in others:
        after = bisect(places, other)
        yield from places[max(0, after - 1) : after + BESIDE]
