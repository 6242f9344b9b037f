"""Reads a journal of any length for the dashboard, block by block. Samples progress reports if there are many."""

from __future__ import annotations

import math
import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalLine, ended_lines, parse_line, read_from
from clusterkit.words.events import Event

BLOCK = 1 << 22  # bytes per read
LONGEST = 1 << 26  # bytes; longer lines are skipped
MANY = 400  # if a block has more reports from an attempt than this, only a sample of the reports is read
EDGE = 4  # the first and last EDGE reports of each attempt in a block are always read
FEWEST = 8  # the minimum size of the sample of an attempt's other reports in a block
BESIDE = 3  # after each event of another kind, this many reports from an attempt are always read
# The approximate maximum number of reports sampled in a whole journal, besides the reports that are always read.
MOST_BETWEEN = 4000
# If finding the reports next to other events would take more comparisons than this, all reports are read.
MOST_LOOKS = 50_000
# Never matches inside a JSON string, since quotes in a JSON string are escaped.
_KIND = re.compile(rb'"event": "(?:Progressed", "task": "([a-z]+:\d+", "attempt": \d+)|)')


class Happening(NamedTuple):
    """An event, the offset after the event's line, the event's time on the run's clock, and the event's wall time."""

    offset: int
    clock: float
    event: Event
    wall: float


class JournalBlocks:
    """Reads each line of the journal once, a block at a time."""

    def __init__(self, run: RunDirectory) -> None:
        self._path = run.journal
        self.offset = 0  # the offset of the next line
        self._skipping = False  # True while the rest of an over-long line is skipped
        self._blocks = 1.0  # the size of the journal in blocks, when the journal was first read

    def has_new(self) -> bool:
        """Return whether the journal has grown. This check is cheap enough for many calls per second."""
        return self._size() > self.offset

    def is_cut(self) -> bool:
        """Return whether the journal is now shorter than the part that was already read."""
        return self._size() < self.offset

    def new(self) -> Iterator[Happening]:
        """Yield the events of all new complete lines. The field `offset` advances by whole blocks."""
        while (data := self._block()) is not None:
            start, self.offset = self.offset, self.offset + len(data)
            if self._skipping:
                end = data.find(b"\n") + 1
                if not end:
                    continue
                self._skipping, start, data = False, start + end, data[end:]
            self._blocks = max(self._blocks, self._size() / BLOCK) if start == 0 else self._blocks
            for at, line in _chosen(data, self._blocks):
                message = parse_line(line)
                timed = None if message is None else JournalLine(start + at, message).timed()
                if timed is not None:
                    yield Happening(start + at, *timed)

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def _block(self) -> bytes | None:
        """Return the next complete lines, or part of a line that is too long; None if the next line is not complete."""
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


def _chosen(data: bytes, blocks: float) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a block that must be parsed, each with the offset after the line.

    Progress reports are parsed if they are among an attempt's first or last in the block, or next to another
    event; the rest are sampled. All other lines are parsed. `blocks` is the journal's size in blocks.
    """
    if data.count(b"\n") < MANY:
        yield from ended_lines(data, 0)
        return
    others, reports = list[int](), defaultdict[bytes, list[int]](list)
    for match in _KIND.finditer(data):
        if (key := match[1]) is None:
            others.append(match.start())
        else:
            reports[key].append(match.start())
    if len(others) * len(reports) > MOST_LOOKS or not any(len(places) > MANY for places in reports.values()):
        yield from ended_lines(data, 0)
        return
    kept, between = set(others), max(FEWEST, int(MOST_BETWEEN / len(reports) / blocks))
    for places in reports.values():
        kept.update(_thinned(places, others, between))
    for start in sorted({data.rfind(b"\n", 0, place) + 1 for place in kept}):
        end = data.index(b"\n", start)
        yield end + 1, data[start:end]


def _thinned(places: Sequence[int], others: Sequence[int], between: int) -> Iterator[int]:
    step = max(1, math.ceil((len(places) - 2 * EDGE) / between))
    yield from places[:EDGE]
    yield from places[EDGE:-EDGE:step]
    yield from places[-EDGE:]
    for other in others:
        after = bisect(places, other)
        yield from places[max(0, after - 1) : after + BESIDE]
