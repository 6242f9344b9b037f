"""An index of a run's arrivals: which part of which log was written when, without keeping all of it in memory."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from clusterkit.store.directory import RunDirectory
from clusterkit.words.model import Task

APART = 1 << 16  # bytes of the file between two places in the index, at first
MOST_ENDS = 200_000  # in all places together; above that, every second place is forgotten
STEP = 1 << 20  # bytes that are read at a time
NEAR = 1 << 12  # bytes of the file in which a time is looked for line by line
LONGEST = 100  # bytes of a line
_LINE = re.compile(rb"(\d{1,12}\.\d{1,9}) ([a-z]{1,12}:\d{1,6}) (\d{1,9}) (\d{1,15})\n")

Key = tuple[bytes, int]  # task, attempt


class Piece(NamedTuple):
    """A part of an attempt's log, and when it was written. `offset` is that of its line in the file."""

    offset: int
    at: float
    key: Key
    start: int
    end: int


class ArrivalsIndex:
    """Pieces by their offsets, in both directions. `update` before each use; then all that was there is known."""

    def __init__(self, run: RunDirectory) -> None:
        self._path = run.arrivals
        self.ends: dict[Key, int] = {}  # of every attempt's log, as far as it is noted
        self.size = 0  # of the file, as far as it is read
        self._places: list[int] = [0]  # offsets in the file
        self._known: list[dict[Key, int]] = [{}]  # the ends by then
        self._apart = APART

    def update(self) -> None:
        while data := self._read(self.size, STEP):
            for at in range(0, len(data), APART):
                self._take(data, at, min(at + APART, len(data)))
            self.size += len(data)

    def after(self, offset: int) -> Iterator[Piece]:
        place = max(0, bisect_right(self._places, offset) - 1)
        ends, at = dict(self._known[place]), self._places[place]
        while at < self.size and (data := self._read(at, min(STEP, self.size - at))):
            for piece in _pieces(data, at, ends):
                if piece.offset >= offset:
                    yield piece
            at += len(data)

    def before(self, offset: int) -> Iterator[Piece]:
        """The pieces that are noted before an offset, the last one first."""
        place = bisect_left(self._places, min(offset, self.size)) - 1
        end = min(offset, self.size)
        while place >= 0:
            begin, ends = self._places[place], dict(self._known[place])
            data = self._read(begin, end - begin + LONGEST)  # the last piece's line may end behind the offset
            yield from reversed([piece for piece in _pieces(data, begin, ends) if piece.offset < end])
            place, end = place - 1, begin

    def since(self, at: float) -> Iterator[Piece]:
        """The pieces from the first one that was written at a wall time or later."""
        low, high = 0, self.size
        while high - low > NEAR:
            middle = (low + high) // 2
            piece = next(self.after(middle), None)
            low, high = (low, middle) if piece is None or piece.at >= at else (middle, high)
        return (piece for piece in self.after(low) if piece.at >= at)

    def when(self, key: Key, place: int) -> float | None:
        """When the byte before a place in an attempt's log was written."""
        number = bisect_left(self._known, place, key=lambda known: known.get(key, 0))
        number = max(0, number - 1)
        for piece in self.after(self._places[number]):
            if piece.key == key and piece.end >= place:
                return piece.at
        return None

    def _take(self, data: bytes, begin: int, end: int) -> None:
        # A line that lies across the limit between two parts is read with the second one.
        start = 0 if begin == 0 else data.rfind(b"\n", 0, begin) + 1
        stop = len(data) if end == len(data) else data.rfind(b"\n", 0, end) + 1
        if self.size + start - self._places[-1] >= self._apart:
            self._places.append(self.size + start)
            self._known.append(dict(self.ends))
            if sum(map(len, self._known)) > MOST_ENDS:
                self._places, self._known, self._apart = self._places[::2], self._known[::2], self._apart * 2
        for match in _LINE.finditer(data, start, stop):
            self.ends[match[2], int(match[3])] = int(match[4])

    def _read(self, offset: int, size: int) -> bytes:
        """Whole lines, as many as there are in so many bytes."""
        try:
            with self._path.open("rb") as file:
                file.seek(offset)
                data = file.read(size)
        except OSError:
            return b""
        end = data.rfind(b"\n") + 1
        return data[:end] if end or len(data) < size else data  # a line that long is none


def _pieces(data: bytes, begin: int, ends: dict[Key, int]) -> Iterator[Piece]:
    for match in _LINE.finditer(data):
        key, end = (match[2], int(match[3])), int(match[4])
        start, ends[key] = ends.get(key, 0), end
        if start < end:
            yield Piece(begin + match.start(), float(match[1]), key, start, end)


def task_of(key: Key) -> Task | None:
    try:
        return Task.parse(key[0].decode())
    except ValueError:
        return None
