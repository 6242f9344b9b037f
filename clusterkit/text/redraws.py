r"""Redrawn lines: progress bars overwrite themselves with `\r` and backspaces; a terminal shows the result."""

from __future__ import annotations

import re
from copy import deepcopy

from clusterkit.text.lines import LineSplitter
from clusterkit.text.printable import COLOR, NO_STYLE

SHOW_EVERY = 10.0  # seconds between displays of a line that is still being redrawn

_LONGEST_STYLE = 64  # the maximum number of characters of a style; programs need fewer to choose colors
_PARTS = re.compile(rf"(\x08+|\x1b\[[02]?K|{COLOR})")
_RESET = re.compile(r"\x1b\[0*(?:;|m)")
_CUT = re.compile(r"\x1b(?:\[[0-9;:]*)?\Z")  # an incomplete sequence at the end of a text
_OVERWRITES = re.compile(r"\x08|\x1b\[[02]?K")


class OverwrittenLine:
    r"""A line as a terminal shows it when parts of the line are overwritten.

    Backspaces and `\r` move to the left, `\x1b[K` erases to the right, `\x1b[2K` everything. Every character counts as
    one column. The time for writing depends only on the length of the written text.
    """

    def __init__(self) -> None:
        self._characters: list[str] = []
        self._styles: list[str] = []
        self._at = 0
        self._style = ""

    def write(self, text: str) -> None:
        """Write text without line ends at the current column."""
        for number, part in enumerate(_PARTS.split(text)):
            if number % 2 == 0:
                self._put(part)
            elif part[0] == "\b":
                self._at = max(0, self._at - len(part))
            elif part[-1] == "m":
                self._style = style_after(self._style, part)
            else:
                if "2" in part:  # the whole line is erased; programs then return to column 0, so the column is not kept
                    self._at = 0
                del self._characters[self._at :], self._styles[self._at :]

    def carriage_return(self) -> None:
        self._at = 0

    def text(self) -> str:
        """Return the visible text without trailing spaces, which progress bars write to erase longer text."""
        parts, style = [], ""
        for character, wanted in zip(self._characters, self._styles, strict=True):
            if wanted != style:
                parts.append(NO_STYLE * bool(style) + wanted)
                style = wanted
            parts.append(character)
        return "".join(parts).rstrip(" ") + NO_STYLE * bool(style)

    def _put(self, part: str) -> None:
        end = self._at + len(part)
        self._characters[self._at : end] = part
        self._styles[self._at : end] = [self._style] * len(part)
        self._at = end


class TerminalLines:
    """Turns one stream's chunks into lines as a terminal finally shows them. Times are in seconds of one clock."""

    def __init__(self) -> None:
        self._splitter = LineSplitter()
        self._line: OverwrittenLine | None = None  # set while a line is being redrawn
        self._since: float | None = None  # when the line was first redrawn after its state was last shown
        self._shown: str | None = None  # the state that was last shown

    @property
    def is_empty(self) -> bool:
        """Return whether no incomplete line or character is buffered."""
        return self._line is None and self._splitter.is_empty

    @property
    def due_at(self) -> float | None:
        """Return when to show the state of the line that is being redrawn; None if the state is unchanged."""
        return None if self._since is None else self._since + SHOW_EVERY

    def feed(self, chunk: bytes, now: float) -> list[str]:
        """Return the lines that `chunk` completed, each in its final state."""
        lines = self._finished(self._splitter.feed(chunk))
        if self._since is None and (self._line is not None or "\b" in self._splitter.rest):
            self._since = now
        return lines

    def due(self, now: float) -> str | None:
        """Return the state of the line that is being redrawn, if it is due and has changed."""
        if self.due_at is None or now < self.due_at:
            return None
        self._since = None
        state = self._state()
        if not state or state == self._shown:
            return None
        self._shown = state
        return state

    def flush(self) -> list[str]:
        """Return the buffered rest at the end of the stream."""
        lines = self._finished(self._splitter.flush())
        if self._line is not None and (last := self._end("")):
            lines.append(last)
        return lines

    def _finished(self, split: list[tuple[str, bool]]) -> list[str]:
        lines = []
        for text, is_overwritten in split:
            if is_overwritten:
                self._line = self._line or OverwrittenLine()
                self._line.write(text)
                self._line.carriage_return()
            elif (line := self._end(text)) is not None:
                lines.append(line)
        return lines

    def _end(self, text: str) -> str | None:
        """Return the line that ends with this text; None if its final state was shown already."""
        shown, line = self._shown, self._line
        self._line = self._since = self._shown = None
        if line is None:
            if not _OVERWRITES.search(text):
                return text
            line = OverwrittenLine()
        line.write(text)
        return None if (last := line.text()) == shown else last

    def _state(self) -> str:
        seen = deepcopy(self._line) or OverwrittenLine()
        seen.write(_CUT.sub("", self._splitter.rest))
        return seen.text()


def style_after(style: str, by: str) -> str:
    """Return the style after another escape sequence; if the combined style is too long, only the last sequence."""
    style = "" if _RESET.match(by) else style
    by = "" if _RESET.fullmatch(by) or len(by) > _LONGEST_STYLE else by
    return style + by if len(style) + len(by) <= _LONGEST_STYLE else by
