"""Keeps the part of a run's output that a cell shows: the newest lines, in total and per task, and the report."""

from __future__ import annotations

import html
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from clusterkit.text.printable import printable

LINES = 200  # the maximum number of lines to keep per tab
LONGEST = 500  # bytes; the rest of a longer line is dropped
ALL_ROOM, TASKS_ROOM = 24_000, 48_000  # characters of HTML; the limits for the tab `all` and for all other tabs
REPORT_ROOM = 12_000  # characters; the limit for the report
ALL = "all"

_BAR = " │ ".encode()
_ELLIPSIS = "…".encode()
_OWN = b"clusterkit"
_NAME = re.compile(rb"[a-z_]{1,20}:(?:\d{1,6}|\*)")
PLAIN_LINES = 40  # the number of output lines in the text/plain representation

_STYLE = """
.{key} label {{ padding: 2px 10px; cursor: pointer; font-family: monospace; border-bottom: 2px solid transparent }}
.{key} input {{ display: none }}
.{key} input:checked + label {{ border-bottom-color: currentColor; font-weight: bold }}
.{key}-panes details summary {{ display: none }}
.{key}-panes details {{ display: none }}
.{key}-panes pre {{ margin: 0; max-height: 24em; overflow: auto; display: flex; flex-direction: column-reverse }}
"""
_CHOSEN = "body:has(#{key}-{number}:checked) .{key}-panes .{key}-{number} {{ display: block }}\n"


class CellOutput:
    """Receives the output of `clusterkit up` in chunks, and keeps the end of each task's output."""

    def __init__(self) -> None:
        self.tasks: Sequence[str] = ()
        self._rest = b""
        self._tabs: dict[bytes, deque[bytes]] = {}
        self._all = deque[bytes](maxlen=LINES)
        self._report = list[bytes]()

    def feed(self, chunk: bytes) -> None:
        """Add a chunk of output. Over-long lines are shortened."""
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
        """Complete the last line. Call this at the end of the output."""
        if self._rest:
            self.feed(b"\n")

    def lines(self, tab: str = ALL) -> list[str]:
        """Return the newest lines of a tab, without control characters."""
        kept = self._all if tab == ALL else self._tabs.get(tab.encode(), ())
        return [*map(_text, kept)]

    @property
    def report(self) -> list[str]:
        """The report or error message: the first lines without a task's prefix. Control characters are replaced."""
        return fitting((_text(line) for line in self._report), REPORT_ROOM)

    def as_html(self, tab: str = ALL) -> str:
        """Return the newest lines of a tab, escaped for HTML, up to the size limit of the tab."""
        room = ALL_ROOM if tab == ALL else TASKS_ROOM // max(1, len(self.tasks))
        return "\n".join(reversed(fitting((html.escape(line) for line in reversed(self.lines(tab))), room)))

    def _tabs_of(self, name: bytes) -> Iterator[deque[bytes]]:
        """Yield the tab of the task `name`. If `name` is `worker:*`, for example, yield the tabs of all workers."""
        known = [task.encode() for task in self.tasks]
        matching = [task for task in known if task.startswith(name[:-1])] if name.endswith(b"*") else [name]
        for task in matching:
            if task in self._tabs or task in known or not known:
                yield self._tabs.setdefault(task, deque(maxlen=LINES))


def _text(line: bytes) -> str:
    return printable(line.decode("utf-8", "replace"))


def fitting(lines: Iterable[str], room: int) -> list[str]:
    """Return the first lines, as many as fit into `room` characters."""
    kept = list[str]()
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept


def tabs(key: str, tasks: Sequence[str]) -> Mapping[str, str]:
    """Return the tabs of a run. `key` must be unique in the notebook."""
    names = [ALL, *tasks]
    style = _STYLE.format(key=key) + "".join(_CHOSEN.format(key=key, number=number) for number in range(len(names)))
    buttons = "".join(
        f'<input type="radio" name="{key}" id="{key}-{number}"{" checked" * (number == 0)}>'
        f'<label for="{key}-{number}">{html.escape(name)}</label>'
        for number, name in enumerate(names)
    )
    return {"text/plain": " ".join(names), "text/html": f'<style>{style}</style><div class="{key}">{buttons}</div>'}


def panes(key: str, output: CellOutput, status: str) -> Mapping[str, str]:
    """Return the content of the tabs, followed by the status (if it is not empty) and the report."""
    names = [ALL, *output.tasks]
    shown = "".join(
        f'<details class="{key}-{number}" open><summary>{html.escape(name)}</summary>'
        f"<pre><code>{output.as_html(name)}</code></pre></details>"
        for number, name in enumerate(names)
    )
    after = [*filter(None, [status]), *output.report]
    below = "\n".join(after)
    plain = [*output.lines()[-PLAIN_LINES:], *after]
    return {
        "text/plain": "\n".join(plain),
        "text/html": f'<div class="{key}-panes">{shown}</div><pre style="margin: 1em 0 0">{html.escape(below)}</pre>',
    }
