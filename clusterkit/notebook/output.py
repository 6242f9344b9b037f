"""Keeps the part of a run's output that a cell shows: the newest lines, together and by task, and the report."""

from __future__ import annotations

import html
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from clusterkit.text.printable import printable

LINES = 200  # lines to keep for each tab
LONGEST = 500  # bytes to keep of each line
ALL_ROOM, TASKS_ROOM = 24_000, 48_000  # characters of HTML: for the tab `all`, and for all other tabs together
REPORT_ROOM = 12_000  # characters; the limit for the report
ALL = "all"

_BAR = " │ ".encode()
_ELLIPSIS = "…".encode()
_OWN = b"clusterkit"
_NAME = re.compile(rb"[a-z_]{1,20}:(?:\d{1,6}|\*)")


class CellOutput:
    """Receives the output of `clusterkit up` in chunks, and keeps the end of each task's output."""

    def __init__(self) -> None:
        self.tasks: Sequence[str] = ()
        self._rest = b""
        self._tabs: dict[bytes, deque[bytes]] = {}
        self._all = deque[bytes](maxlen=LINES)
        self._report = list[bytes]()

    def feed(self, chunk: bytes) -> None:
        """Add a chunk of output. Of an over-long line, only the beginning is kept."""
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest[: LONGEST + 1]
        for line in lines:
            line = line if len(line) <= LONGEST else line[:LONGEST] + _ELLIPSIS
            name, bar, text = line.partition(_BAR)
            if (bar and (is_own := (name := name.rstrip()) == _OWN)) or _NAME.fullmatch(name):
                self._all.append(line)
                for tab in () if is_own else self._tabs_of(name):
                    tab.append(text)
            elif len(self._report) < LINES:
                self._report.append(line)

    def end(self) -> None:
        """Complete the last line at the end of the output."""
        if self._rest:
            self.feed(b"\n")

    def lines(self, tab: str = ALL) -> list[str]:
        """Return the newest lines of a tab, without control characters."""
        kept = self._all if tab == ALL else self._tabs.get(tab.encode(), ())
        return [*map(_text, kept)]

    @property
    def report(self) -> list[str]:
        """The first lines without a task's prefix, which are the report or an error, without control characters."""
        return fitting((_text(line) for line in self._report), REPORT_ROOM)

    def as_html(self, tab: str = ALL) -> str:
        """Return the tab's newest lines, escaped, as far as the tab's limit allows."""
        room = ALL_ROOM if tab == ALL else TASKS_ROOM // max(1, len(self.tasks))
        return "\n".join(reversed(fitting((html.escape(line) for line in reversed(self.lines(tab))), room)))

    def _tabs_of(self, name: bytes) -> Iterator[deque[bytes]]:
        """Yield the tab of a task or, for a prefix such as `worker:*`, the tabs of all tasks of the type."""
        known = [task.encode() for task in self.tasks]
        matching = [task for task in known if task.startswith(name[:-1])] if name.endswith(b"*") else [name]
        for task in matching:
            if task in self._tabs or task in known or not known:
                yield self._tabs.setdefault(task, deque(maxlen=LINES))


def _text(line: bytes) -> str:
    return printable(line.decode("utf-8", "replace"))


def fitting(lines: Iterable[str], room: int) -> list[str]:
    """Return the first lines whose total length is within the limit `room`."""
    kept = list[str]()
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept
