"""Prepares a task's output for the console: adds a prefix to each line. Plain text is handled in whole chunks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from clusterkit.text import lines
from clusterkit.text.noise import NoiseFilter
from clusterkit.text.printable import COLOR, NO_STYLE, Chunk, encoded, printable
from clusterkit.text.redraws import TerminalLines, style_after
from clusterkit.views.repeats import FEW, Repeats, Twins

BLOCK = 1 << 11  # the maximum bytes of a block; only blocks that are not plain text are handled line by line

_CONTROL = bytes(code for code in [*range(32), 127] if code not in (9, 10))
# The non-ASCII characters that `printable` replaces. Each expression begins with a fixed byte for a fast search.
_HIGH_CONTROL = re.compile(rb"\xc2[\x80-\x9f]")
_DIRECTION = re.compile(rb"\xe2(?:\x80[\xa8-\xae]|\x81[\xa6-\xa9])")
_COLOR = re.compile(COLOR.encode())
_STYLE = re.compile(COLOR)
_LEFT_ON = re.compile(rb"\x1b\[(?!0?m)[0-9;:]*m[^\x1b\n]*+\n")  # a color that is still on at the end of a line
_REDRAWN = re.compile(rb"[\r\x08]")
_TITLE = re.compile(r"Epoch \d+/\d+$")
_COLORS = r"(?:\x1b\[[0-9;]*m)*"
# Matches the progress bars of Keras 3 and Keras 2, which follow the number of the step.
_BAR = re.compile(rf"^( *{_COLORS} *\d+/(?:\d+|Unknown){_COLORS} ){_COLORS}(?:━[━\x1b0-9;\[m]*|\[[=>.]+\](?: -)?) ")


class Prefixer:
    """Turns the chunks of one attempt's output into lines for the console.

    If lines are handled one by one, each line is decoded, dropped if it is noise, cleaned of control characters, and
    given a prefix. Nearly all output needs only the prefix. In such output, the newlines of many lines are replaced
    at once, which is 25 times as fast for short lines.
    """

    def __init__(
        self, prefix: str, noise: bool, color: bool, repeats: Repeats | None = None, twins: Twins | None = None
    ) -> None:
        self._prefix = prefix
        self._first = prefix.encode()
        self._next = b"\n" + self._first
        self._color = color
        self._filter = None if noise else NoiseFilter()
        self._repeats = Repeats({}) if repeats is None else repeats
        self._twins = twins
        self._epochs = Epochs()  # used only if `twins` is given
        self.hidden = 0  # the number of lines of noise
        self._lines = TerminalLines()
        self._style = ""  # colors that earlier lines have left on; the next line begins with these colors
        self._rest = b""  # the beginning of a line, kept here only while `_lines` is empty

    @property
    def due_at(self) -> float | None:
        """The time at which the current text of a redrawn line has to be shown; None if no line is being redrawn."""
        return self._lines.due_at

    def feed(self, chunk: bytes, now: float) -> list[Chunk]:
        """Take a chunk; return the output to show now. `now` is in seconds."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            return self._hold(chunk, now)
        whole = b"".join((b"\n", self._rest, memoryview(chunk)[:end]))
        self._rest = b""
        shown = self._shown(whole, now)
        return shown + self._hold(chunk[end:], now) if end < len(chunk) else shown

    def flush(self, now: float) -> list[Chunk]:
        """Return what remains to be shown at the end of the output."""
        rest, self._rest = self._rest, b""
        shown = self._by_line([*self._lines.feed(rest, now), *self._lines.flush()], now)
        shown += self._encoded(self._repeats.flush(), now)
        if self._twins is not None:
            shown += encoded(self._twins.feed(self, self._epochs.drain(), now))
            self._twins.end(self)
        return shown

    def due(self, now: float) -> list[Chunk]:
        """Return the current text of a line that the task keeps redrawing, if it is time to show this text."""
        state = self._lines.due(now)
        return [] if state is None else self._encoded([state], now)

    def _hold(self, part: bytes, now: float) -> list[Chunk]:
        """Keep the beginning of a line, unless the line is being redrawn or is too long."""
        if self._lines.is_empty and len(self._rest) + len(part) <= lines.LONGEST and not _REDRAWN.search(part):
            self._rest += part
            return []
        part, self._rest = self._rest + part, b""
        return self._by_line(self._lines.feed(part, now), now)

    # In the methods below, `whole` is a newline followed by whole lines, so that each line has a newline before it. The
    # prefix is inserted after that newline.

    def _shown(self, whole: bytes, now: float) -> list[Chunk]:
        shown = list[Chunk]()
        if self._twins is not None:
            if len(whole) <= FEW:
                return self._by_line(self._lines.feed(whole[1:], now), now)
            shown += encoded([*self._twins.feed(self, self._epochs.drain(), now), *self._twins.drain()])
        plain = self._if_plain(whole)
        if plain is not None:
            return shown + plain
        for block in _blocks(whole):
            plain = self._if_plain(block)
            shown += self._by_line(self._lines.feed(block[1:], now), now) if plain is None else plain
        return shown

    def _if_plain(self, whole: bytes) -> list[Chunk] | None:
        bare = without_colors(whole)
        if not self._is_plain(whole, bare):
            return None
        text = whole if self._color else bare
        return [memoryview(text.replace(b"\n", self._next))[1 : -len(self._first)]]

    def _is_plain(self, whole: bytes, bare: bytes) -> bool:
        """Return whether handling `whole` line by line would change nothing but add prefixes and remove colors."""
        return (
            self._lines.is_empty
            and len(whole) <= lines.LONGEST
            and is_printable(whole, bare)
            and not (self._color and (self._style or (whole is not bare and _LEFT_ON.search(whole))))
            and not (self._filter is not None and (self._filter.may_hide(whole) or self._repeats.may_hide(whole)))
        )

    def _by_line(self, finished: list[str], now: float) -> list[Chunk]:
        if self._filter is None:
            return self._encoded(finished, now)
        own = [line for line in finished if not self._filter.is_noise(line)]
        self.hidden += len(finished) - len(own)
        return self._encoded([line for each in own for line in self._repeats.feed(each)], now)

    def _encoded(self, shown: list[str], now: float) -> list[Chunk]:
        if self._twins is None:
            return encoded([*map(self.line, shown)])
        return encoded(self._twins.feed(self, [line for each in shown for line in self._epochs.feed(each)], now))

    def line(self, text: str, prefix: str = "") -> str:
        shown, prefix = printable(text, self._color), prefix or self._prefix
        if not self._color or not (self._style or "\x1b" in shown):
            return f"{prefix}{shown}\n"
        before = self._style
        for sequence in _STYLE.findall(shown):
            self._style = style_after(self._style, sequence)
        return f"{prefix}{before}{shown}{NO_STYLE * bool(self._style)}\n"


def without_colors(text: bytes) -> bytes:
    return _COLOR.sub(b"", text) if b"\x1b" in text else text


def is_printable(whole: bytes, bare: bytes) -> bool:
    r"""Return whether lines are UTF-8 without control characters such as `\r`. `bare` are the lines without colors.

    Several simple passes are ten times as fast as one regular expression that searches for a set of bytes.
    """
    if b"\r" in bare or len(bare.translate(None, _CONTROL)) < len(bare):
        return False
    if whole.isascii():
        return True
    try:
        whole.decode()  # not `bare`, in which the bytes around a removed color could form a character
    except UnicodeDecodeError:
        return False
    return _HIGH_CONTROL.search(whole) is None and _DIRECTION.search(whole) is None


def _blocks(whole: bytes) -> Iterator[bytes]:
    """Yield the lines in blocks of at most BLOCK bytes, or of one longer line. Each block begins with a newline."""
    start = 0
    while start + 1 < len(whole):
        end = whole.rfind(b"\n", start + 1, start + BLOCK)
        if end < 0:
            end = whole.index(b"\n", start + 1)
        yield whole[start : end + 1]
        start = end


@dataclass(slots=True)
class Epochs:
    """Shortens Keras's output: joins the title of an epoch with the next line, and removes progress bars."""

    _title: str = ""

    def feed(self, line: str) -> list[str]:
        """Take a line; return the lines to show now."""
        title = self.drain()
        if _TITLE.match(line):
            self._title = line
            return title
        if (bar := _BAR.match(line)) is None:
            return [*title, line]
        state = f"{bar[1]}{line[bar.end() :]}"
        return [" ".join([*title, state.lstrip() if title else state])]

    def drain(self) -> list[str]:
        title, self._title = self._title, ""
        return [title] if title else []
