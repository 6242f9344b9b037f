"""Logs by pages: the lines of one attempt's log. (The merged logs of all tasks are in `page/merged.py`.)

A cursor marks the beginning or end of a page; clients receive cursors and send them back. No file is read as a whole.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

from clusterkit.store.directory import RunDirectory
from clusterkit.system.files import open_fd
from clusterkit.text.printable import printable
from clusterkit.text.redraws import TerminalLines
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.model import Task

CHUNK = 1 << 18  # bytes per read; a longer line is shown as several lines
LONGEST_SHOWN = 1 << 14  # characters of a line that are shown
_REDRAWN = re.compile(rb"[\r\x08]|\x1b\[[02]?K")
LONGEST_CURSOR = 18  # digits
Matches = Callable[[str], bool]


class BadCursor(ClusterkitError):
    """A cursor that belongs to no page."""

    def __init__(self) -> None:
        super().__init__("This is no place in the log. Use the cursor of a page of the same log.")


@dataclass(slots=True)
class Search:
    """The limits of a page: `lines` with at most `characters` in total. A search for matches ends at `until`."""

    lines: int
    characters: int
    until: float  # monotonic time
    matches: Matches | None = None
    _looked: int = 0

    @property
    def over(self) -> bool:
        late = self.matches is not None and self._looked > 0 and time.monotonic() > self.until
        return self.lines <= 0 or self.characters <= 0 or late

    def takes(self, text: str) -> bool:
        """Return whether a line is wanted, and count it if so."""
        self._looked += 1
        if self.matches is not None and not self.matches(text):
            return False
        self.lines -= 1
        self.characters -= len(text) + 1
        return True


class LineSpan(NamedTuple):
    """A line of an attempt's log: its offset, the offset of the next line, and its bytes."""

    start: int
    end: int
    raw: bytes

    @property
    def text(self) -> str:
        """The line as `shown` returns it, computed anew each time, since most lines of a search are skipped."""
        return shown(self.raw)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A line for a client. `t` is its wall time, None if unknown; `cursor` marks its beginning."""

    t: float | None
    task: str
    attempt: int
    text: str
    cursor: str


@dataclass(frozen=True, slots=True)
class Page:
    """Lines in their order, and the cursors of the next and the previous page."""

    lines: tuple[LogEntry, ...] = ()
    next: str = ""
    previous: str = ""
    skipped: int = 0  # bytes that were left out
    done: bool = True  # no more lines exist in that direction for now


def shown(raw: bytes) -> str:
    """Return a line as text with colors, as a terminal would show it after all redraws."""
    most = 4 * LONGEST_SHOWN
    left_out = max(0, len(raw) - most)
    if left_out:  # keep the end of a line that is redrawn, or the beginning of any other line
        raw = raw[-most:] if b"\r" in raw else raw[:most]
    if _REDRAWN.search(raw):
        terminal = TerminalLines()
        lines = [*terminal.feed(raw, 0.0), *terminal.flush()]
        text = lines[-1] if lines else ""
    else:
        text = raw.decode(errors="replace")
    left_out += max(0, len(text) - LONGEST_SHOWN)
    return printable(text[:LONGEST_SHOWN], color=True) + (f" … ({left_out} more)" if left_out else "")


@contextmanager
def opened(run: RunDirectory, task: Task, attempt: int) -> Iterator[int | None]:
    """Yield the descriptor of an attempt's log; None if the log can't be opened."""
    file = None
    with ExitStack() as stack:
        with suppress(OSError):  # O_NONBLOCK, since a task can replace its log with a pipe
            file = stack.enter_context(open_fd(run.log(task, attempt), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
        yield file


def read(file: int, start: int, end: int) -> bytes:
    """Return the bytes from `start` to `end`, or fewer if there are not as many."""
    try:
        return os.pread(file, max(0, end - start), start)
    except OSError:
        return b""


def whole_lines(data: bytes, start: int) -> tuple[list[LineSpan], int]:
    """Return the lines that end within `data`, which begins at offset `start`, and the offset after the last line."""
    found, at = [], start
    for raw in data.split(b"\n")[:-1]:
        found.append(LineSpan(at, at + len(raw) + 1, raw))
        at += len(raw) + 1
    return found, at


def lines_after(file: int, start: int, end: int, final: bool) -> list[LineSpan]:
    """Return the lines between `start` and `end`, at most CHUNK bytes; if `final`, the last line needs no newline."""
    data = read(file, start, min(end, start + CHUNK))
    if not data:
        return []
    cut = data.rfind(b"\n") + 1
    if not cut:
        whole = len(data) >= CHUNK or (final and start + len(data) >= end)
        return [LineSpan(start, start + len(data), data)] if whole else []
    found, at = whole_lines(data, start)
    if final and at < end <= start + len(data):
        found.append(LineSpan(at, end, data[cut:]))
    return found


def lines_before(file: int, end: int) -> list[LineSpan]:
    """Return the lines before `end`, at most CHUNK bytes. `end` is treated as the end of a line."""
    begin = max(0, end - CHUNK)
    data = read(file, begin, end)
    if not data:
        return []
    if begin > 0:
        first = data.find(b"\n", 0, len(data) - 1) + 1
        if not first:  # part of a line longer than CHUNK
            return [LineSpan(begin, begin + len(data), data.removesuffix(b"\n"))]
        begin, data = begin + first, data[first:]
    found, at = whole_lines(data, begin)
    rest = data[at - begin :]
    return [*found, LineSpan(at, end, rest)] if rest else found


def line_start(file: int, place: int) -> int:
    """Return the beginning of the line that contains an offset, at most CHUNK bytes before the offset."""
    begin = max(0, place - CHUNK)
    data = read(file, begin, place)
    newline = data.rfind(b"\n")
    return begin + newline + 1 if newline >= 0 else begin


@dataclass(slots=True)
class AttemptLog:
    """One attempt's log by pages; its cursors are offsets."""

    run: RunDirectory
    task: Task
    attempt: int
    final: bool  # True if the attempt writes no more
    when: Callable[[Task, int, int], float | None]  # the wall time at which the byte before an offset was written

    def after(self, cursor: str, search: Search) -> Page:
        with opened(self.run, self.task, self.attempt) as file:
            if file is None:
                return Page(next="0", previous="0")
            end = os.fstat(file).st_size
            first = at = min(_place(cursor), end)
            found = list[LogEntry]()
            while not search.over and (lines := lines_after(file, at, end, self.final)):
                for line in lines:
                    at = line.end
                    if search.takes(line.text):
                        found.append(self._line(line))
                        if search.over:
                            break
            return Page(tuple(found), str(at), str(first), done=not lines_after(file, at, end, self.final))

    def before(self, cursor: str | None, search: Search) -> Page:
        """Return the page before a cursor; None stands for the end of the log."""
        with opened(self.run, self.task, self.attempt) as file:
            if file is None:
                return Page(next="0", previous="0")
            size = os.fstat(file).st_size
            at = size if cursor is None else min(_place(cursor), size)
            if at == size and not self.final:
                at = line_start(file, at)
            last, found = at, list[LogEntry]()
            while not search.over and (lines := lines_before(file, at)):
                for line in reversed(lines):
                    at = line.start
                    if search.takes(line.text):
                        found.append(self._line(line))
                        if search.over:
                            break
            return Page(tuple(reversed(found)), str(last), str(at), done=at <= 0)

    def skip(self, cursor: str, keep: int) -> tuple[str, int]:
        """Skip from a cursor to the last `keep` bytes; return the new cursor and how many bytes were left out."""
        with opened(self.run, self.task, self.attempt) as file:
            at = _place(cursor)
            if file is None or os.fstat(file).st_size - at <= keep:
                return cursor, 0
            new = max(at, line_start(file, os.fstat(file).st_size - keep))
            return str(new), new - at

    def _line(self, line: LineSpan) -> LogEntry:
        at = self.when(self.task, self.attempt, line.end)
        return LogEntry(at, str(self.task), self.attempt, line.text, str(line.start))


def _place(cursor: str) -> int:
    """Parse a cursor into an offset. Raises BadCursor."""
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > LONGEST_CURSOR:
        raise BadCursor
    return int(cursor)
