"""The part of the logs that goes into a report: the end of each attempt's log, and the lines around incidents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clusterkit.page.arrivals import ArrivalsIndex, Key, Piece, task_of
from clusterkit.page.logs import line_start, opened, read, shown, size_of
from clusterkit.store.directory import RunDirectory

MOST = 5 << 20  # characters of JSON
BEFORE, AFTER = 5.0, 10.0  # seconds around an incident
LEAST_TAIL, GREATEST_TAIL = 512, 1 << 18  # bytes
FARTHEST_BACK = 1 << 12  # bytes to the beginning of a line
PART = 1 << 16  # bytes that are read at a time
_FOR_TAILS = 0.6  # of what there is room for


@dataclass(frozen=True, slots=True)
class Extract:
    """Lines as the page shows them, some of which stand for bytes that are left out; `total`: the bytes of all logs."""

    lines: tuple[dict[str, Any], ...]
    total: int
    left_out: int


def extract(run: RunDirectory, began: float, incidents: Sequence[float], most: int = MOST) -> Extract:
    """The lines, in the order in which they were written. `began` in wall time, `incidents` in seconds since then."""
    index = ArrivalsIndex(run)
    index.update()
    room = most
    while True:
        found = _Extractor(run, index, began, incidents, room).all()
        if room < LEAST_TAIL or sum(len(json.dumps(line)) for line in found.lines) <= most:
            return found
        room //= 2  # what looks short in bytes may be long as JSON


class _Extractor:
    def __init__(
        self, run: RunDirectory, index: ArrivalsIndex, began: float, incidents: Sequence[float], most: int
    ) -> None:
        self._run, self._index, self._began = run, index, began
        self._sizes = dict(_sizes(run))
        self._total = sum(self._sizes.values())
        whole = self._total <= most // 2
        tail = min(max(LEAST_TAIL, int(most * _FOR_TAILS) // max(1, len(self._sizes))), GREATEST_TAIL)
        self._tails = {key: 0 if whole else max(0, size - tail) for key, size in self._sizes.items()}
        share = int(most * (1 - _FOR_TAILS)) // max(1, len(incidents))
        self._windows = [[began + at - BEFORE, began + at + AFTER, share] for at in incidents]
        self._read: dict[Key, int] = {}  # up to where each log was read
        self._left_out = 0

    def all(self) -> Extract:
        lines = list(self._lines())
        return Extract(tuple(lines), self._total, self._left_out)

    def _lines(self) -> Iterator[dict[str, Any]]:
        for piece in self._index.after(0):
            if piece.key in self._sizes and (start := self._wanted(piece)) is not None:
                yield from self._of(piece.key, start, min(piece.end, self._sizes[piece.key]), piece.at, final=False)
        for key, size in self._sizes.items():  # the last line may have no end, and the last pieces may not be noted
            if self._read.get(key, 0) < size:
                start = max(self._read.get(key, 0), self._tails[key])
                yield from self._of(key, start, size, None, final=True)

    def _wanted(self, piece: Piece) -> int | None:
        """From where on a piece is wanted; None if it is not."""
        for window in self._windows:
            if window[0] <= piece.at <= window[1] and window[2] > 0:
                window[2] -= piece.end - piece.start
                return piece.start
        tail = self._tails[piece.key]
        return max(piece.start, tail) if piece.end > tail else None

    def _of(self, key: Key, start: int, end: int, at: float | None, final: bool) -> Iterator[dict[str, Any]]:
        """The lines that end between `start` and `end`, after a note of how many bytes before them are left out."""
        task, done = task_of(key), self._read.get(key, 0)
        if task is None:
            return
        of = {"t": self._seconds(at), "task": str(task), "attempt": key[1]}
        with opened(self._run, task, key[1]) as file:
            if file is None:
                return
            begin = done if start <= done else max(done, line_start(file, start), start - FARTHEST_BACK)
            if begin > done:
                self._left_out += begin - done
                yield {**of, "text": "", "skipped": begin - done}
            while begin < end and (data := read(file, begin, min(end, begin + PART))):
                cut = data.rfind(b"\n") + 1 or (len(data) if final or len(data) == PART else 0)
                if not cut:
                    break
                rest = final and begin + len(data) >= end
                whole, begin = data if rest else data[:cut], begin + (len(data) if rest else cut)
                for raw in whole.removesuffix(b"\n").split(b"\n"):
                    yield {**of, "text": shown(raw)}
        self._read[key] = begin

    def _seconds(self, at: float | None) -> float | None:
        return None if at is None else round(at - self._began, 3)


def _sizes(run: RunDirectory) -> Iterator[tuple[Key, int]]:
    for task, attempt, _ in run.logs():
        with opened(run, task, attempt) as file:
            if file is not None:
                yield (str(task).encode(), attempt), size_of(file)
