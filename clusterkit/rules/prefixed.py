"""A task's output as the console shows it: whole lines, each with a prefix. By the chunk where it is plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clusterkit.rules import lines
from clusterkit.rules.lines import LineSplitter, printable
from clusterkit.rules.noise import NoiseFilter

BAR_EVERY = 1.0  # seconds between two states of a progress bar that are shown
BLOCK = 1 << 11  # bytes; of a chunk that is not plain, only the blocks that are not are taken line by line

_CONTROL = bytes(code for code in [*range(32), 127] if code not in (9, 10))
_HIGH_CONTROL = re.compile(rb"\xc2[\x80-\x9f]")
_COLOR = re.compile(rb"\x1b\[[0-9;:]*m")


class Prefixer:
    """Turns the chunks of one attempt's output into what is shown of it.

    The reference is the way line by line: split, decode, hide noise, replace control characters, put the prefix before
    it. What all of this would leave as it is, which is nearly everything, takes the short way instead: of many lines at
    once the newlines are replaced. That costs a fiftieth.
    """

    def __init__(self, prefix: str, noise: bool) -> None:
        self._prefix = prefix
        self._first = prefix.encode()
        self._next = b"\n" + self._first
        self._filter = None if noise else NoiseFilter()
        self._splitter = LineSplitter()
        self._rest = b""  # of a line that has not ended; the splitter is empty then
        self._bar: str | None = None
        self._bar_at = float("-inf")

    def feed(self, chunk: bytes, now: float) -> bytes:
        """What is shown once `chunk` has come; `now` in seconds."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            return self._hold(chunk, now)
        whole, self._rest = self._rest + chunk[:end], b""
        shown = [self._shown(whole, now)]
        if end < len(chunk):
            shown.append(self._hold(chunk[end:], now))
        return b"".join(shown)

    def flush(self, now: float) -> bytes:
        """What is left at the end of the output."""
        rest, self._rest = self._rest, b""
        shown = self._by_line([*self._splitter.feed(rest), *self._splitter.flush()], now)
        return shown if self._bar is None else shown + self._line(self._bar)

    def _hold(self, part: bytes, now: float) -> bytes:
        """Keep the beginning of a line; a progress bar and a line without end can't wait for it to end."""
        if self._splitter.is_empty and len(self._rest) + len(part) <= lines.LONGEST and b"\r" not in part:
            self._rest += part
            return b""
        part, self._rest = self._rest + part, b""
        return self._by_line(self._splitter.feed(part), now)

    def _shown(self, whole: bytes, now: float) -> bytes:
        """What is shown of whole lines."""
        if self._is_plain(whole):
            return self._at_once(whole)
        if len(whole) <= BLOCK:
            return self._by_line(self._splitter.feed(whole), now)
        return b"".join(
            [
                self._at_once(block) if self._is_plain(block) else self._by_line(self._splitter.feed(block), now)
                for block in _blocks(whole)
            ]
        )

    def _is_plain(self, whole: bytes) -> bool:
        """Whether the way line by line would only put prefixes before the lines."""
        return (
            self._splitter.is_empty
            and len(whole) <= lines.LONGEST
            and is_printable(whole)
            and not (self._filter is not None and self._filter.may_hide(whole))
        )

    def _at_once(self, whole: bytes) -> bytes:
        self._bar = None
        with_one_more = whole.replace(b"\n", self._next)
        return b"".join((self._first, memoryview(with_one_more)[: -len(self._first)]))

    def _by_line(self, split: list[tuple[str, bool]], now: float) -> bytes:
        prefix = self._prefix
        shown = [f"{prefix}{printable(line)}\n" for line, is_bar in split if self._is_shown(line, is_bar, now)]
        return "".join(shown).encode("utf-8", "replace")

    def _line(self, line: str) -> bytes:
        return f"{self._prefix}{printable(line)}\n".encode("utf-8", "replace")

    def _is_shown(self, line: str, is_bar: bool, now: float) -> bool:
        if is_bar:
            due = now - self._bar_at >= BAR_EVERY
            self._bar_at, self._bar = (now, None) if due else (self._bar_at, line)
            return due and bool(line)
        self._bar = None  # its last state is this line, or was followed by it
        return self._filter is None or not self._filter.is_noise(line)


def is_printable(whole: bytes) -> bool:
    r"""Whether whole lines are text in UTF-8 with no control characters but tabs and colors, and with no `\r`.

    Why not a regular expression: these passes together are ten times as fast as one that looks for a set of bytes.
    """
    bare = _COLOR.sub(b"", whole) if b"\x1b" in whole else whole
    if b"\r" in bare or len(bare.translate(None, _CONTROL)) < len(bare):
        return False
    if bare.isascii():
        return True
    try:
        bare.decode()
    except UnicodeDecodeError:
        return False
    return _HIGH_CONTROL.search(bare) is None


def _blocks(whole: bytes) -> Iterator[bytes]:
    """The same lines in pieces of about BLOCK bytes, each of whole lines."""
    start = 0
    while start < len(whole):
        end = whole.find(b"\n", start + BLOCK) + 1 or len(whole)
        yield whole[start:end]
        start = end
