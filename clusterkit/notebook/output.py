"""What a cell shows of a run's output: the newest lines, of all tasks and of each one, and the report."""

from __future__ import annotations

import html
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from clusterkit.text.printable import printable

LINES = 200  # that are kept for each tab
LONGEST = 500  # bytes that are kept of a line
ALL_ROOM, TASKS_ROOM = 24_000, 48_000  # characters of HTML: of the tab with all lines, and of all others together
REPORT_ROOM = 12_000
ALL = "all"

_BAR = " │ ".encode()
_ELLIPSIS = "…".encode()
_OWN = b"clusterkit"
_NAME = re.compile(rb"[a-z_]{1,20}:(?:\d{1,6}|\*)")


class CellOutput:
    """Takes what `clusterkit up` prints, in chunks, and keeps the end of it for each task."""

    def __init__(self) -> None:
        self.tasks: Sequence[str] = ()
        self._rest = b""
        self._tabs: dict[bytes, deque[bytes]] = {}
        self._all = deque[bytes](maxlen=LINES)
        self._report = list[bytes]()

    def feed(self, chunk: bytes) -> None:
        """Take a chunk. Of a line that does not end, only the beginning is kept."""
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
        """There is no more: show the last line, even if it has not ended."""
        if self._rest:
            self.feed(b"\n")

    def lines(self, tab: str = ALL) -> list[str]:
        """The newest lines of a tab, safe to show as text."""
        kept = self._all if tab == ALL else self._tabs.get(tab.encode(), ())
        return [*map(_text, kept)]

    @property
    def report(self) -> list[str]:
        """The first lines without a prefix: the report of a run, or why there is none. Safe to show as text."""
        return fitting((_text(line) for line in self._report), REPORT_ROOM)

    def as_html(self, tab: str = ALL) -> str:
        """As many of the tab's newest lines as it has room for, escaped."""
        room = ALL_ROOM if tab == ALL else TASKS_ROOM // max(1, len(self.tasks))
        return "\n".join(reversed(fitting((html.escape(line) for line in reversed(self.lines(tab))), room)))

    def _tabs_of(self, name: bytes) -> Iterator[deque[bytes]]:
        """The tab of a task; those of all tasks of its type for `worker:*`."""
        known = [task.encode() for task in self.tasks]
        matching = [task for task in known if task.startswith(name[:-1])] if name.endswith(b"*") else [name]
        for task in matching:
            if task in self._tabs or task in known or not known:
                yield self._tabs.setdefault(task, deque(maxlen=LINES))


def _text(line: bytes) -> str:
    return printable(line.decode("utf-8", "replace"))


def fitting(lines: Iterable[str], room: int) -> list[str]:
    """The first lines that have room together."""
    kept = list[str]()
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept
