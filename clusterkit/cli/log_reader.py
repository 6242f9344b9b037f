"""Reads logs: selects pieces and joins them into lines, up to now or until the run ends."""

from __future__ import annotations

import re
import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from clusterkit.cli.addressing import end_waiter, selector
from clusterkit.engines.base import may_continue
from clusterkit.store.arrivals import Arrivals, Piece
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import follow
from clusterkit.text.noise import NoiseFilter
from clusterkit.views.loglines import LineMaker, LogLine
from clusterkit.words.model import Task

MOST_NOISE = 1000  # the number of lines to read in addition to --tail, since some lines may be noise


@dataclass(slots=True)
class LogReader:
    """Reads selected lines from a run's logs. `since` is a wall-clock time.

    If `quiet` is True, TensorFlow's noise is omitted. `hides` is True once a line has been omitted.
    """

    run: RunDirectory
    tasks: tuple[str, ...]
    attempt: int | None
    since: float | None
    tail: int | None
    grep: re.Pattern[str] | None
    quiet: bool
    arrivals: Arrivals = field(init=False)
    parser: LineMaker = field(default_factory=LineMaker)
    hides: bool = False
    _noise: dict[tuple[Task, int], NoiseFilter] = field(default_factory=lambda: defaultdict(NoiseFilter))

    def __post_init__(self) -> None:
        self.arrivals = Arrivals(self.run)

    def lines_so_far(self, merge: bool) -> Iterator[LogLine]:
        """Yield the lines so far, task by task or merged in chronological order."""
        pieces = self._select([*self.arrivals.new(), *self.arrivals.rest()])
        for group in [pieces] if merge else _by_task(pieces):
            yield from self._last_lines(self._shorten(group), ended=True)

    def follow(self) -> Iterator[list[LogLine]]:
        """Yield batches of lines in chronological order: the lines so far, then new lines until the run ends."""
        if not self.run.is_live() and not may_continue(self.run):
            yield from ([line] for line in self.lines_so_far(merge=True))
            return
        looks = follow(self.arrivals.new, end_waiter(self.run).is_over)
        yield list(self._last_lines(self._shorten(self._select(next(looks))), ended=False))
        for pieces in looks:
            yield [
                *self._lines(self._select(pieces), ended=False),
                *filter(self._matches, self.parser.due(time.time())),
            ]
        yield list(self._lines(self._select([*self.arrivals.new(), *self.arrivals.rest()]), ended=True))
        yield [line for line in self.parser.end_all() if self._matches(line)]

    def _select(self, pieces: Iterable[Piece]) -> list[Piece]:
        of, attempt, since = selector(self.tasks), self.attempt, self.since or 0.0
        return [p for p in pieces if of(p.task) and attempt in (None, p.attempt) and p.at >= since]

    def _shorten(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Drop pieces that contain none of the wanted lines, so that only the end of a large log has to be read."""
        if self.tail is not None and self.grep is None:
            return self.arrivals.last_lines(pieces, self.tail + (MOST_NOISE if self.quiet else 0))
        return pieces if self.since is None else self.arrivals.whole_lines(pieces)

    def _last_lines(self, pieces: Sequence[Piece], ended: bool) -> Iterator[LogLine]:
        lines = self._lines(pieces, ended)
        return lines if self.tail is None else iter(deque(lines, maxlen=min(self.tail, sys.maxsize)))

    def _lines(self, pieces: Sequence[Piece], ended: bool) -> Iterator[LogLine]:
        return filter(self._matches, self._parsed(pieces, ended))

    def _parsed(self, pieces: Sequence[Piece], ended: bool) -> Iterator[LogLine]:
        last = {(piece.task, piece.attempt): index for index, piece in enumerate(pieces)} if ended else {}
        for index, piece in enumerate(pieces):
            yield from self.parser.feed(piece.at, piece.task, piece.attempt, self.arrivals.read(piece))
            if last.get((piece.task, piece.attempt)) == index:
                yield from self.parser.end(piece.task, piece.attempt)

    def _matches(self, line: LogLine) -> bool:
        if self.grep is not None:
            return self.grep.search(line.text) is not None
        is_noise = self.quiet and self._noise[line.task, line.attempt].is_noise(line.text)
        self.hides |= is_noise
        return not is_noise


def _by_task(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    ordered = sorted(pieces, key=lambda piece: (piece.task, piece.attempt))  # a stable sort keeps the order of arrival
    return (list(group) for _, group in groupby(ordered, key=lambda piece: piece.task))
