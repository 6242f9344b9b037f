"""A task's output as the console shows it: whole lines, each with a prefix. By the chunk where it is plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clusterkit.words import lines
from clusterkit.words.lines import LineSplitter
from clusterkit.words.noise import NoiseFilter
from clusterkit.words.printable import COLOR, printable

BAR_EVERY = 1.0  # seconds between two states of a progress bar that are shown
BLOCK = 1 << 11  # bytes; of a chunk that is not plain, only the blocks that are not are taken line by line

Chunk = bytes | memoryview

_CONTROL = bytes(code for code in [*range(32), 127] if code not in (9, 10))
# What `printable` hides beyond ASCII. Two expressions: each begins with one byte, which is searched for fast.
_HIGH_CONTROL = re.compile(rb"\xc2[\x80-\x9f]")
_DIRECTION = re.compile(rb"\xe2(?:\x80[\xa8-\xae]|\x81[\xa6-\xa9])")
_COLOR = re.compile(COLOR.encode())


class Prefixer:
    """Turns the chunks of one attempt's output into what is shown of it.

    The reference is the way line by line: split, decode, hide noise, replace control characters, put the prefix before
    it. What all of this would leave as it is, which is nearly everything, takes the short way instead: of many lines at
    once the newlines are replaced. Of short lines that costs a twenty-fifth.
    """

    def __init__(self, prefix: str, noise: bool, color: bool) -> None:
        self._prefix = prefix
        self._first = prefix.encode()
        self._next = b"\n" + self._first
        self._color = color
        self._filter = None if noise else NoiseFilter()
        self._splitter = LineSplitter()
        self._rest = b""  # of a line that has not ended; the splitter is empty then
        self._bar: str | None = None
        self._bar_at = float("-inf")

    def feed(self, chunk: bytes, now: float) -> list[Chunk]:
        """What is shown once `chunk` has come; `now` in seconds."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            return self._hold(chunk, now)
        whole = b"".join((b"\n", self._rest, memoryview(chunk)[:end]))
        self._rest = b""
        shown = self._shown(whole, now)
        return shown + self._hold(chunk[end:], now) if end < len(chunk) else shown

    def flush(self, now: float) -> list[Chunk]:
        """What is left at the end of the output."""
        rest, self._rest = self._rest, b""
        shown = self._by_line([*self._splitter.feed(rest), *self._splitter.flush()], now)
        return shown if self._bar is None else [*shown, self._line(self._bar).encode("utf-8", "replace")]

    def _hold(self, part: bytes, now: float) -> list[Chunk]:
        """Keep the beginning of a line; a progress bar and a line without end can't wait for it to end."""
        if self._splitter.is_empty and len(self._rest) + len(part) <= lines.LONGEST and b"\r" not in part:
            self._rest += part
            return []
        part, self._rest = self._rest + part, b""
        return self._by_line(self._splitter.feed(part), now)

    # From here on `whole` is whole lines after a newline: each has one before it, also the first, and it is them that
    # prefixes are put after.

    def _shown(self, whole: bytes, now: float) -> list[Chunk]:
        shown = self._if_plain(whole)
        if shown is not None:
            return shown
        shown = []
        for block in _blocks(whole):
            plain = self._if_plain(block)
            shown += self._by_line(self._splitter.feed(block[1:]), now) if plain is None else plain
        return shown

    def _if_plain(self, whole: bytes) -> list[Chunk] | None:
        bare = without_colors(whole)
        return self._at_once(whole if self._color else bare) if self._is_plain(whole, bare) else None

    def _is_plain(self, whole: bytes, bare: bytes) -> bool:
        """Whether the way line by line would only put prefixes before the lines, and perhaps take colors out."""
        return (
            self._splitter.is_empty
            and len(whole) <= lines.LONGEST
            and is_printable(whole, bare)
            and not (self._filter is not None and self._filter.may_hide(whole))
        )

    def _at_once(self, whole: bytes) -> list[Chunk]:
        self._bar = None
        return [memoryview(whole.replace(b"\n", self._next))[1 : -len(self._first)]]

    def _by_line(self, split: list[tuple[str, bool]], now: float) -> list[Chunk]:
        shown = [self._line(line) for line, is_bar in split if self._is_shown(line, is_bar, now)]
        return ["".join(shown).encode("utf-8", "replace")] if shown else []

    def _line(self, line: str) -> str:
        return f"{self._prefix}{printable(line, self._color)}\n"

    def _is_shown(self, line: str, is_bar: bool, now: float) -> bool:
        if is_bar:
            due = now - self._bar_at >= BAR_EVERY
            self._bar_at, self._bar = (now, None) if due else (self._bar_at, line)
            return due and bool(line)
        self._bar = None  # its last state is this line, or was followed by it
        return self._filter is None or not self._filter.is_noise(line)


def without_colors(text: bytes) -> bytes:
    """The text without the escape sequences of colors."""
    return _COLOR.sub(b"", text) if b"\x1b" in text else text


def is_printable(whole: bytes, bare: bytes) -> bool:
    r"""Whether whole lines are text in UTF-8 with no `\r` and nothing to hide. `bare` are the lines without colors.

    Why not a regular expression: these passes together are ten times as fast as one that looks for a set of bytes.
    """
    if b"\r" in bare or len(bare.translate(None, _CONTROL)) < len(bare):
        return False
    if whole.isascii():
        return True
    try:
        whole.decode()  # with its colors, or the bytes around one could make a character
    except UnicodeDecodeError:
        return False
    return _HIGH_CONTROL.search(whole) is None and _DIRECTION.search(whole) is None


def _blocks(whole: bytes) -> Iterator[bytes]:
    """The same lines, after a newline, in pieces of at most BLOCK bytes or of one line."""
    start = 0
    while start + 1 < len(whole):
        end = whole.rfind(b"\n", start + 1, start + BLOCK)
        if end < 0:
            end = whole.index(b"\n", start + 1)
        yield whole[start : end + 1]
        start = end
