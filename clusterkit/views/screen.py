"""Writes lines to a terminal, above a bottom line that stays in place, and decides whether to show colors."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from clusterkit.text.printable import COLOR, Chunk, columns

REFRESH = 0.25  # seconds between updates of the bottom line
AT_ONCE = 1024  # the maximum number of chunks per system call
FREE = 4  # columns kept free at the end of the bottom line, so that the terminal's echo of ^C does not wrap

_USUAL = 80  # columns; the width of a terminal that does not report one
_COLOR = re.compile(COLOR)

CLEAR_LINE = "\r\x1b[K"
Bottom = Callable[[int], str]  # returns the bottom line for a width in columns
COLORS_HELP = (
    "Show or remove colors, including those of the tasks; the log files keep all colors. If neither option is given, "
    "the environment variables NO_COLOR and FORCE_COLOR decide."
)


def is_screen(stream: TextIO | None) -> bool:
    """Return whether text that was printed to the stream can be overwritten."""
    if stream is None or not stream.isatty() or is_notebook(os.environ):
        return False
    return os.environ.get("TERM", "dumb") not in ("", "dumb")


def has_terminal(descriptor: int, group: int) -> bool:
    """Return whether the process group is in the terminal's foreground; True if unknown, as in another session."""
    try:
        return os.tcgetpgrp(descriptor) == group
    except OSError:
        return True


class Screen:
    """Writes whole lines. The bottom line is erased before these lines and drawn again after them, in one system call.

    The bottom line is drawn only while `group`, the process group of the command, is in the foreground, so that a
    command in the background does not disturb the shell's prompt. The terminal's width is read before each drawing.
    """

    def __init__(self, descriptor: int, bottom: Bottom | None = None, group: int | None = None) -> None:
        self._descriptor = descriptor
        self._bottom = bottom
        self._group = group
        self._drawn = ""
        self._drawn_at = float("-inf")
        self._broken = False

    @property
    def patience(self) -> float | None:
        """Seconds after which `write` should be called again; None if no further call is needed."""
        return None if self._bottom is None or self._broken else REFRESH

    def write(self, texts: Sequence[Chunk]) -> None:
        """Write lines above the bottom line. Without lines, redraw the bottom line if REFRESH seconds have passed."""
        now = time.monotonic()
        if self._bottom is None:
            self._write(texts)
        elif texts or now - self._drawn_at >= REFRESH:
            self._drawn_at = now
            self._draw(texts, self._bottom)

    def end(self, texts: Sequence[Chunk] = ()) -> None:
        """Write the last lines and remove the bottom line."""
        bottom, self._bottom = self._bottom, None
        if bottom is None:
            self._write(texts)
        else:
            self._draw(texts, lambda width: "")

    def _draw(self, texts: Sequence[Chunk], bottom: Bottom) -> None:
        width = self._width()
        if width is None:
            self._drawn = ""  # other text may have overwritten the bottom line
            self._write(texts)
            return
        line = bottom(width - FREE)
        rows = -(-columns(_COLOR.sub("", self._drawn)) // width)  # more than one if the terminal has become narrower
        up = f"\x1b[{rows - 1}A" if rows > 1 else ""
        erase = f"\r{up}\x1b[J" if self._drawn else ""
        if texts or up or not line:
            self._write([erase.encode(), *texts, line.encode()])
        elif line != self._drawn:
            self._write([f"\r{line}\x1b[K".encode()])
        self._drawn = line

    def _width(self) -> int | None:
        """Return the width of the terminal in columns; None while the command is in the background."""
        try:
            width = os.get_terminal_size(self._descriptor).columns or _USUAL
        except OSError:
            return None
        return width if self._group is None or has_terminal(self._descriptor, self._group) else None

    def _write(self, texts: Sequence[Chunk]) -> None:
        try:
            for start in range(0, 0 if self._broken else len(texts), AT_ONCE):
                self._write_all(texts[start : start + AT_ONCE])
        except OSError:  # the terminal or the reader is gone: the run continues, and the logs have everything
            self._broken = True

    def _write_all(self, texts: Sequence[Chunk]) -> None:
        while texts:
            try:
                written = os.writev(self._descriptor, texts)
            except BlockingIOError:
                os.set_blocking(self._descriptor, True)
                continue
            if written == sum(map(len, texts)):
                return
            texts = [memoryview(b"".join(texts))[written:]]


def is_notebook(environment: Mapping[str, str]) -> bool:
    """Return whether a command was started by `!` in a notebook, where printed text can't be overwritten.

    For such a command, ipykernel sets TERM, PAGER, GIT_PAGER and FORCE_COLOR, so that FORCE_COLOR is not the user's
    choice.
    """
    return [environment.get(name) for name in ("TERM", "PAGER", "GIT_PAGER")] == ["xterm-color", "cat", "cat"]


def wants_color(asked: bool | None, environment: Mapping[str, str], is_terminal: bool) -> bool:
    """Return whether to show colors. If `asked` is None, environment variables or, without them, a terminal decide."""
    if asked is not None:
        return asked
    if environment.get("NO_COLOR") or is_notebook(environment):
        return False
    if environment.get("FORCE_COLOR") or environment.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return is_terminal and environment.get("TERM") != "dumb"
