"""Merges the logs of all tasks in the order in which their lines were completed, as recorded in the file `arrivals`."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

from clusterkit.page.logs import CHUNK, LineSpan, LogEntry, Page, Search, place_in, whole_lines
from clusterkit.store.arrivals import OpenLogs, Piece, Source, recorded
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import read_from
from clusterkit.words.model import Task

APART = 1 << 16  # bytes; the initial distance between the offsets of the file `arrivals` that the index stores
MOST_ENDS = 200_000  # if the index has more log lengths than this, every second stored offset is dropped
STEP = 1 << 20  # bytes per read
NEAR = 1 << 12  # bytes; a binary search for a time ends with a range of this size, which is read line by line
LONGEST = 100  # bytes; the maximum length of a line in the file `arrivals`


class ArrivalsIndex:
    """Iterates over the pieces of logs that the file `arrivals` records, from any offset and in both directions.

    A piece is the part of a log that was written at one time. Call `update` before each use, to read new records.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._path = run.arrivals
        self.ends: dict[Source, int] = {}  # the recorded length of each attempt's log
        self.size = 0  # the number of bytes of `arrivals` that have been read
        self._places: list[int] = [0]  # the offsets in the file that the index stores
        self._known: list[dict[Source, int]] = [{}]  # the value of `ends` at each of these offsets
        self._apart = APART

    def update(self) -> None:
        while data := self._read(self.size, APART):
            if self.size - self._places[-1] >= self._apart:
                self._places.append(self.size)
                self._known.append(dict(self.ends))
                if sum(map(len, self._known)) > MOST_ENDS:
                    self._places, self._known, self._apart = self._places[::2], self._known[::2], self._apart * 2
            for _ in recorded(data, self.size, self.ends):
                pass
            self.size += len(data)

    def after(self, offset: int) -> Iterator[Piece]:
        place = max(0, bisect_right(self._places, offset) - 1)
        ends, at = dict(self._known[place]), self._places[place]
        while at < self.size and (data := self._read(at, min(STEP, self.size - at))):
            for piece in recorded(data, at, ends):
                if piece.offset >= offset:
                    yield piece
            at += len(data)

    def before(self, offset: int) -> Iterator[Piece]:
        """Yield the pieces recorded before an offset, the last piece first."""
        place = bisect_left(self._places, min(offset, self.size)) - 1
        end = min(offset, self.size)
        while place >= 0:
            begin, ends = self._places[place], dict(self._known[place])
            data = self._read(begin, end - begin + LONGEST)  # the last piece's line may end after the offset
            yield from reversed([piece for piece in recorded(data, begin, ends) if piece.offset < end])
            place, end = place - 1, begin

    def since(self, at: float) -> Iterator[Piece]:
        """Return the pieces that were written at or after a wall time."""
        low, high = 0, self.size
        while high - low > NEAR:
            middle = (low + high) // 2
            piece = next(self.after(middle), None)
            low, high = (low, middle) if piece is None or piece.at >= at else (middle, high)
        return (piece for piece in self.after(low) if piece.at >= at)

    def when(self, source: Source, place: int) -> float | None:
        """Return the wall time at which the byte before an offset in an attempt's log was written."""
        number = bisect_left(self._known, place, key=lambda known: known.get(source, 0))
        number = max(0, number - 1)
        for piece in self.after(self._places[number]):
            if piece.source == source and piece.end >= place:
                return piece.at
        return None

    def _read(self, offset: int, size: int) -> bytes:
        """Return the complete lines within the `size` bytes after an offset of the file."""
        data = read_from(self._path, offset, size)
        end = data.rfind(b"\n") + 1
        return data[:end] if end or len(data) < size else data  # `recorded` ignores over-long lines


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A position between two lines of the merged logs.

    The position is in the piece that the file `arrivals` records at `offset`. In this piece, the position follows the
    lines that end at or before the offset `within` of the log.
    """

    offset: int
    within: int = -1

    def __str__(self) -> str:
        return f"{self.offset}.{self.within + 1}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Parse a cursor. Raises BadCursor."""
        offset, dot, within = text.partition(".")
        return cls(place_in(offset), place_in(within if dot else "0") - 1)


class MergedLog:
    """The merged logs of a run, divided into pages. `over` is True if the logs are complete.

    The logs are merged piece by piece; a piece is the part of a log that was written at one time. A line belongs to the
    piece that contains the end of the line. If the last line of an attempt has no newline, the line belongs to the
    first piece of the task's next attempt; if there is no next attempt, the line comes after all pieces.
    """

    def __init__(self, run: RunDirectory, index: ArrivalsIndex, over: bool, wanted: Callable[[Task], bool]) -> None:
        self.run, self.index, self.over, self.wanted = run, index, over, wanted
        self._logs = OpenLogs(run)

    def after(self, cursor: str, search: Search) -> Page:
        with closing(self._logs):
            first = place = Position.parse(cursor)
            found = list[LogEntry]()
            for piece in self._pieces_after(place.offset):
                if search.over:
                    return Page(tuple(found), str(place), str(first), done=False)
                for line in self._lines(piece):
                    if piece.offset == first.offset and line.end <= first.within:
                        continue
                    if search.over:
                        return Page(tuple(found), str(place), str(first), done=False)
                    place = Position(piece.offset, line.end)
                    if search.takes(line.text):
                        found.append(_log_line(piece, line))
                place = max(place, Position(piece.offset, piece.end))
            return Page(tuple(found), str(place), str(first), done=True)

    def before(self, cursor: str | None, search: Search) -> Page:
        """Return the page before a cursor; None stands for the end of the logs."""
        with closing(self._logs):
            last = None if cursor is None else Position.parse(cursor)
            place, found = last, list[LogEntry]()
            for piece in self._pieces_before(last):
                if last is None:
                    last = place = Position(piece.offset, piece.end)
                if search.over:
                    break
                for line in reversed(self._lines(piece)):
                    if cursor is not None and piece.offset == last.offset and line.end > last.within:
                        continue
                    if search.over:
                        break
                    place = Position(piece.offset, line.start)
                    if search.takes(line.text):
                        found.append(_log_line(piece, line))
                else:
                    place = Position(piece.offset)
            done = not search.over or place is None or place.offset == 0
            last, place = last or Position(0), place or Position(0)
            return Page(tuple(reversed(found)), str(last), str(place), done=done)

    def skip(self, cursor: str, keep: int) -> tuple[str, int]:
        """Move a cursor forward until about `keep` bytes follow. Return the cursor and the number of skipped bytes."""
        place = Position.parse(cursor)
        sizes, total, skipped, new = deque[tuple[Position, int]](), 0, 0, place
        for piece in self._pieces_after(place.offset):
            begin = max(piece.start, place.within) if piece.offset == place.offset else piece.start
            if begin >= piece.end:
                continue
            sizes.append((Position(piece.offset, piece.end), piece.end - begin))
            total += piece.end - begin
            while len(sizes) > 1 and total - sizes[0][1] >= keep:
                new, size = sizes.popleft()
                total, skipped = total - size, skipped + size
        return str(new), skipped

    def _pieces_after(self, offset: int) -> Iterator[Piece]:
        rest = (piece for piece in self._rest() if piece.offset >= offset)
        return (piece for piece in chain(self.index.after(offset), rest) if self.wanted(piece.task))

    def _pieces_before(self, last: Position | None) -> Iterator[Piece]:
        """Return the pieces before a position, and the piece that contains the position."""
        rest = [piece for piece in self._rest() if last is None or piece.offset <= last.offset]
        end = self.index.size if last is None else last.offset + 1
        return (piece for piece in chain(reversed(rest), self.index.before(end)) if self.wanted(piece.task))

    def _rest(self) -> list[Piece]:
        """Return pieces for the bytes that `arrivals` does not record, and for last lines without a newline."""
        if not self.over:
            return []
        found = list[Piece]()
        for task, attempt, path in self.run.logs():
            try:
                seen = path.stat()
            except OSError:
                continue
            noted = self.index.ends.get((task, attempt), 0)
            if seen.st_size > noted or (seen.st_size and (task, attempt + 1) not in self.index.ends):
                found.append(Piece(seen.st_mtime, task, attempt, noted, seen.st_size))
        return [piece._replace(offset=offset) for offset, piece in enumerate(sorted(found), self.index.size + 1)]

    def _lines(self, piece: Piece) -> list[LineSpan]:
        """Return the lines that end in a piece. The first line may begin in an earlier piece."""
        before = self._unfinished(piece.task, piece.attempt - 1) if piece.start == 0 and piece.attempt > 1 else []
        log, final = self._logs.of(piece.source), piece.offset > self.index.size
        begin = log.line_start(piece.start, CHUNK)
        data = log.read(begin, piece.end)
        whole, at = whole_lines(data, begin)
        found = before + [line for line in whole if line.end > piece.start]
        if final and (rest := data[at - begin :]):
            found.append(LineSpan(at, at + len(rest) + 1, rest))
        return found

    def _unfinished(self, task: Task, attempt: int) -> list[LineSpan]:
        """Return an attempt's last line if that line has no newline.

        The offsets of the returned line are smaller than those of all lines of the next attempt.
        """
        end, log = self.index.ends.get((task, attempt), 0), self._logs.of((task, attempt))
        rest = log.read(log.line_start(end, CHUNK), end)
        return [LineSpan(-1, 0, rest)] if rest and not rest.endswith(b"\n") else []


def _log_line(piece: Piece, line: LineSpan) -> LogEntry:
    attempt = piece.attempt - (line.start < 0)
    return LogEntry(piece.at, str(piece.task), attempt, line.text, str(Position(piece.offset, line.start)))
