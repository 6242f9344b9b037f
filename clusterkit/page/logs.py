"""Pages of lines from the log of one attempt. (`page/model/merged.py` merges the logs of all tasks.)

A cursor marks the beginning or end of a page; clients receive cursors and send them back. No file is read as a whole.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from clusterkit.store.arrivals import LogFile, Source
from clusterkit.store.journal import ended_lines
from clusterkit.text.printable import printable
from clusterkit.text.redraws import TerminalLines
from clusterkit.words.errors import ClusterkitError

CHUNK = 1 << 18  # bytes per read; a longer line is split into several lines
LONGEST_SHOWN = 1 << 14  # characters; at most this much of a line is shown
_REDRAWN = re.compile(rb"[\r\x08]|\x1b\[[02]?K")
LONGEST_CURSOR = 18  # the maximum number of digits in a cursor
Matches = Callable[[str], bool]


class BadCursor(ClusterkitError):
    """A client sent a text that is not a cursor."""

    def __init__(self) -> None:
        super().__init__("This is not a valid cursor. Use a cursor from a page of the same log.")


@dataclass(slots=True)
class Search:
    """The limits of a search: how many more lines and characters fit on the page, and when the search stops."""

    lines: int
    characters: int
    until: float  # the monotonic time at which a search for matches stops
    matches: Matches | None = None
    _looked: int = 0

    @property
    def over(self) -> bool:
        late = self.matches is not None and self._looked > 0 and time.monotonic() > self.until
        return self.lines <= 0 or self.characters <= 0 or late

    def takes(self, text: str) -> bool:
        """Return whether a line belongs on the page; if so, count the line."""
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
        """The text of the line, as `shown` returns it. The text is not cached, since most texts are used only once."""
        return shown(self.raw)


class LogEntry(NamedTuple):
    """A line as sent to a client. `t` is the line's wall time, or None; `cursor` marks the beginning of the line."""

    t: float | None
    task: str
    attempt: int
    text: str
    cursor: str


class Page(NamedTuple):
    """The lines of a page in order, and the cursors for the next and the previous page."""

    lines: tuple[LogEntry, ...]
    next: str
    previous: str
    done: bool  # True if there are currently no further lines in the direction in which the client is paging


def shown(raw: bytes) -> str:
    """Return the text of a line with colors, as a terminal would show the line after all redraws."""
    most = 4 * LONGEST_SHOWN
    left_out = max(0, len(raw) - most)
    if left_out:  # keep the end of a redrawn line, and the beginning of any other line
        raw = raw[-most:] if b"\r" in raw else raw[:most]
    if _REDRAWN.search(raw):
        terminal = TerminalLines()
        lines = [*terminal.feed(raw, 0.0), *terminal.flush()]
        text = lines[-1] if lines else ""
    else:
        text = raw.decode(errors="replace")
    left_out += max(0, len(text) - LONGEST_SHOWN)
    return printable(text[:LONGEST_SHOWN], color=True) + (f" … ({left_out} more)" if left_out else "")


def whole_lines(data: bytes, start: int) -> tuple[list[LineSpan], int]:
    """Return the complete lines in `data`, and the offset after the last one. `data` begins at the offset `start`."""
    found = [LineSpan(end - len(raw) - 1, end, raw) for end, raw in ended_lines(data, start)]
    return found, found[-1].end if found else start


def lines_after(log: LogFile, start: int, end: int, final: bool) -> Iterator[LineSpan]:
    """Yield the lines between two offsets. If `final` is True, also yield a last line that lacks a newline."""
    while data := log.read(start, min(end, start + CHUNK)):
        lines, at = whole_lines(data, start)
        rest = data[at - start :]
        if rest and (len(rest) == CHUNK or (final and at + len(rest) == end)):
            lines.append(LineSpan(at, at + len(rest), rest))
        if not lines:
            return
        yield from lines
        start = lines[-1].end


def lines_before(log: LogFile, end: int) -> Iterator[LineSpan]:
    """Yield the lines before the offset `end`, from last to first. A line that is incomplete at `end` is included."""
    while data := log.read(begin := max(0, end - CHUNK), end):
        cut = data.find(b"\n", 0, len(data) - 1) + 1 if begin > 0 else 0  # the first line may begin earlier
        lines, at = whole_lines(data[cut:], begin + cut)
        if rest := data[at - begin :]:
            lines.append(LineSpan(at, end, rest))
        yield from reversed(lines)
        end = lines[0].start


@dataclass(slots=True)
class AttemptLog:
    """The log of one attempt, divided into pages. A cursor is an offset in the log."""

    path: Path
    source: Source
    final: bool  # True if the log is complete
    when: Callable[[Source, int], float | None]  # returns the wall time at which the byte before an offset was written

    def after(self, cursor: str, search: Search) -> Page:
        with closing(LogFile(self.path)) as log:
            end = log.size
            first = at = min(place_in(cursor), end)
            found = list[LogEntry]()
            for line in lines_after(log, at, end, self.final):
                if search.over:
                    break
                at = line.end
                if search.takes(line.text):
                    found.append(self._line(line))
            return Page(tuple(found), str(at), str(first), done=not any(lines_after(log, at, end, self.final)))

    def before(self, cursor: str | None, search: Search) -> Page:
        """Return the page before a cursor; None stands for the end of the log."""
        with closing(LogFile(self.path)) as log:
            size = log.size
            at = size if cursor is None else min(place_in(cursor), size)
            if at == size and not self.final:
                at = log.line_start(at, CHUNK)
            last, found = at, list[LogEntry]()
            for line in lines_before(log, at):
                if search.over:
                    break
                at = line.start
                if search.takes(line.text):
                    found.append(self._line(line))
            return Page(tuple(reversed(found)), str(last), str(at), done=at <= 0)

    def skip(self, cursor: str, keep: int) -> tuple[str, int]:
        """Move a cursor forward until about `keep` bytes follow. Return the cursor and the number of skipped bytes."""
        with closing(LogFile(self.path)) as log:
            at, size = place_in(cursor), log.size
            new = max(at, log.line_start(size - keep, CHUNK)) if size - at > keep else at
            return str(new), new - at

    def _line(self, line: LineSpan) -> LogEntry:
        at = self.when(self.source, line.end)
        return LogEntry(at, str(self.source[0]), self.source[1], line.text, str(line.start))


def place_in(cursor: str) -> int:
    """Parse a cursor into an offset. Raises BadCursor."""
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > LONGEST_CURSOR:
        raise BadCursor
    return int(cursor)
