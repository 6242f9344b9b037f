"""Reads the output of all tasks from their logs, in the order in which the output was written."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import read_from
from clusterkit.system.files import open_regular
from clusterkit.words.model import Task

BLOCK = 1 << 12  # bytes; the size of a read in the search for the beginning of a line
CHUNK = 1 << 18  # bytes; the maximum size of a piece
LARGEST = 1 << 60  # bytes; the maximum size of a log
MOST_OPEN = 64  # the maximum number of logs that are open at once
Source = tuple[Task, int]  # task, attempt
_LINE = re.compile(rb"(\d{1,11}\.\d{1,9}) ([a-z]{1,12}:\d{1,6}) (\d{1,9}) (\d{1,15})\n")


class Piece(NamedTuple):
    """A part of an attempt's log, from `start` to `end`, and the wall time at which it was written.

    `offset` is the position, in the file `arrivals`, of the line that records the piece.
    """

    at: float
    task: Task
    attempt: int
    start: int
    end: int
    offset: int = 0

    @property
    def source(self) -> Source:
        return self.task, self.attempt


def recorded(data: bytes, offset: int, ends: dict[Source, int]) -> Iterator[Piece]:
    """Yield the pieces recorded in `data`, a part of `arrivals` that begins at `offset`; note their ends in `ends`."""
    for match in _LINE.finditer(data):
        source, end = _source(match[2], match[3]), int(match[4])
        if source is not None and (start := ends.get(source, 0)) < end:
            ends[source] = end
            yield Piece(float(match[1]), *source, start, end, offset + match.start())


@lru_cache(4096)
def _source(name: bytes, attempt: bytes) -> Source | None:
    with suppress(ValueError):
        return Task.parse(name.decode()), int(attempt)
    return None


class LogFile:
    """The log of an attempt, open for reading. A log that can't be opened has no bytes."""

    def __init__(self, path: Path) -> None:
        self._file: io.FileIO | None = None
        with suppress(OSError):
            self._file = open_regular(path)

    @property
    def is_open(self) -> bool:
        return self._file is not None

    @property
    def size(self) -> int:
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_size

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` to `end`, or fewer if the log is shorter."""
        with suppress(OSError):
            if self._file is not None:
                return os.pread(self._file.fileno(), max(0, min(end, self.size) - start), start)
        return b""

    def line_start(self, place: int, farthest: int = LARGEST) -> int:
        """Return the beginning of the line that contains an offset, at most `farthest` bytes before the offset."""
        start, least = place, max(0, place - farthest)
        while before := self.read(max(least, start - BLOCK), start):
            if (newline := before.rfind(b"\n")) >= 0:
                return start - len(before) + newline + 1
            start -= len(before)
        return start

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class OpenLogs:
    """The logs of a run, of which at most MOST_OPEN are open at once."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._files: dict[Source, LogFile] = {}

    def of(self, source: Source) -> LogFile:
        if source not in self._files:
            if len(self._files) >= MOST_OPEN:
                self._files.pop(next(iter(self._files))).close()
            self._files[source] = LogFile(self._run.log(*source))
        return self._files[source]

    def close(self) -> None:
        while self._files:
            self._files.popitem()[1].close()


class Arrivals:
    """Reads the pieces of a run's logs in the order that the file `arrivals` records."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._offset = 0
        self._ends: dict[Source, int] = {}
        self._logs = OpenLogs(run)

    def new(self) -> list[Piece]:
        """Return the pieces that were recorded since the last call."""
        data = read_from(self._run.arrivals, self._offset)
        data = data[: data.rfind(b"\n") + 1]
        self._offset += len(data)
        return list(recorded(data, self._offset - len(data), self._ends))

    def rest(self) -> list[Piece]:
        """Return the log parts whose arrival was not recorded, for example because the supervisor was killed."""
        found = []
        for task, attempt, log in self._run.logs():
            try:
                source, seen = (task, attempt), log.lstat()
            except OSError:  # the run is being removed
                continue
            while (start := self._ends.get(source, 0)) < seen.st_size:
                end = self._ends[source] = min(seen.st_size, start + CHUNK)
                found.append(Piece(seen.st_mtime, *source, start, end))
        return sorted(found, key=lambda piece: piece.at)

    def read(self, piece: Piece) -> bytes:
        """Return the bytes of a piece, or fewer if the log was truncated."""
        return self._logs.of(piece.source).read(piece.start, piece.end)

    def last_lines(self, pieces: Sequence[Piece], count: int) -> list[Piece]:
        """Return the pieces that contain the last `count` lines. Each attempt's output begins with a whole line."""
        newlines, at, data = 0, len(pieces), b""
        while at > 0 and newlines <= count:
            at -= 1
            data = self.read(pieces[at])
            newlines += data.count(b"\n")
        last = list(pieces[at:])
        if newlines > count:  # all surplus lines are in the first of the pieces
            skipped = len(data) - len(data.split(b"\n", newlines - count)[-1])
            last[0] = last[0]._replace(start=last[0].start + skipped)
        return self.whole_lines([piece for piece in last if piece.start < piece.end])

    def whole_lines(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Return the pieces, with the first piece of each attempt extended to the beginning of its first line."""
        seen: set[Source] = set()
        whole = []
        for piece in pieces:
            first = piece.source not in seen
            seen.add(piece.source)
            start = self._logs.of(piece.source).line_start(piece.start) if first else piece.start
            whole.append(piece._replace(start=start))
        return whole

    def close(self) -> None:
        self._logs.close()
