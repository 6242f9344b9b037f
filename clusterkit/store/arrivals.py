"""Reads the output of all tasks from their logs, in the order in which it was written."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import LATEST, read_from
from clusterkit.words.model import Task

CHUNK = 1 << 18  # bytes; the maximum size of a piece
LARGEST = 1 << 60  # bytes; the maximum size of a log
MOST_OPEN = 64  # the maximum number of logs open at a time
Source = tuple[Task, int]  # task, attempt


class Piece(NamedTuple):
    """A part of an attempt's log, from `start` to `end`, and the wall time at which it was written."""

    at: float
    task: Task
    attempt: int
    start: int
    end: int


class Arrivals:
    """Reads the pieces of a run's logs in the order that the file `arrivals` records."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._offset = 0
        self._ends: defaultdict[Source, int] = defaultdict(int)
        self._names: dict[bytes, Task] = {}
        self._files: dict[Source, int | None] = {}

    def new(self) -> list[Piece]:
        """Return the pieces that were recorded since the last call."""
        data = read_from(self._run.arrivals, self._offset)
        *lines, rest = data.split(b"\n")
        self._offset += len(data) - len(rest)
        return [piece for line in lines if (piece := self._piece(line)) is not None]

    def rest(self) -> list[Piece]:
        """Return the log parts whose arrival was not recorded, for example because the supervisor was killed."""
        found = []
        for task, attempt, log in self._run.logs():
            try:
                stream, seen = (task, attempt), log.lstat()
            except OSError:  # the run is being removed
                continue
            while (start := self._ends[stream]) < seen.st_size:
                end = self._ends[stream] = min(seen.st_size, start + CHUNK)
                found.append(Piece(seen.st_mtime, *stream, start, end))
        return sorted(found, key=lambda piece: piece.at)

    def read(self, piece: Piece) -> bytes:
        """Return the bytes of a piece, or fewer if the log was truncated."""
        file = self._file((piece.task, piece.attempt))
        size = 0 if file is None else os.fstat(file).st_size
        return b"" if file is None else os.pread(file, max(0, min(piece.end, size) - piece.start), piece.start)

    def whole_line(self, piece: Piece) -> Piece:
        """Return the piece, extended to the beginning of its first line."""
        start, file = piece.start, self._file((piece.task, piece.attempt))
        while start > 0 and file is not None:
            before = os.pread(file, min(start, 4096), max(0, start - 4096))
            if not before:  # the log was truncated
                return piece
            if (newline := before.rfind(b"\n")) >= 0:
                return piece._replace(start=start - len(before) + newline + 1)
            start -= len(before)
        return piece._replace(start=start)

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
            first = (piece.task, piece.attempt) not in seen
            seen.add((piece.task, piece.attempt))
            whole.append(self.whole_line(piece) if first else piece)
        return whole

    def close(self) -> None:
        for stream in list(self._files):
            self._close(stream)

    def _piece(self, line: bytes) -> Piece | None:
        """Return the piece that a line of `arrivals` records, or None if the line is damaged."""
        try:
            time, name, attempt, noted = line.split()
            at, stream, end = float(time), (self._task(name), int(attempt)), int(noted)
        except ValueError:
            return None
        start = self._ends[stream]
        if not 0 <= at < LATEST or not start <= end < LARGEST:
            return None
        self._ends[stream] = end
        return Piece(at, *stream, start, end)

    def _task(self, name: bytes) -> Task:
        if name not in self._names:
            self._names[name] = Task.parse(name.decode())
        return self._names[name]

    def _file(self, stream: Source) -> int | None:
        if stream not in self._files:
            if len(self._files) >= MOST_OPEN:
                self._close(next(iter(self._files)))
            self._files[stream] = _opened(self._run.log(*stream))
        return self._files[stream]

    def _close(self, stream: Source) -> None:
        if (file := self._files.pop(stream)) is not None:
            os.close(file)


def _opened(log: Path) -> int | None:
    try:
        # Do not block or follow links, since a task can replace the log by a pipe or a link.
        file = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None
