"""Splits chunks of bytes into lines, and finds tracebacks and the packages that their frames belong to."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

LONGEST = 1 << 20  # characters; longer lines are split into pieces, since an endless line would fill the memory

_BREAK = re.compile(r"\r\n|\n|\r")
_PACKAGE = re.compile(r"/(?:(?:site|dist)-packages/|(?=clusterkit/(?:task|warm|training)/.*\.py$))([^/]+)")
_CYTHON = re.compile(r"^(\w+)/[\w/]*\.pyx$")  # source names in tracebacks of compiled modules
_STANDARD = re.compile(r"/lib(?:64)?/python3[^/]*/|^<frozen ")
_GENERATED = "/__autograph_generated_file"


class LineSplitter:
    """Turns one stream's chunks into lines. A `\\r` alone ends a line that the next line overwrites."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    @property
    def is_empty(self) -> bool:
        """Return whether no incomplete line or character is buffered."""
        return not self._rest and not self._decoder.getstate()[0]

    @property
    def rest(self) -> str:
        r"""Return the beginning of an incomplete line, without a final `\r`, which may be half of a `\r\n`."""
        return self._rest.removesuffix("\r")

    def feed(self, chunk: bytes) -> list[tuple[str, bool]]:
        """Return the lines that `chunk` completed, each with True if it ended with `\\r` (a progress bar)."""
        return self._split(self._decoder.decode(chunk), final=False)

    def flush(self) -> list[tuple[str, bool]]:
        """Return the buffered rest at the end of the stream."""
        lines = self._split(self._decoder.decode(b"", final=True), final=True)
        if self._rest:
            lines.append((self._rest, False))
            self._rest = ""
        return lines

    def _split(self, new: str, final: bool) -> list[tuple[str, bool]]:
        text = self._rest + new
        if "\r" not in text:  # the common case, which str.split handles fast
            *whole, rest = text.split("\n")
            lines, held = [(line, False) for line in whole], ""
        else:
            lines, rest, held = self._split_bars(text, final)
        if len(text) > LONGEST:
            *lines, (rest, _) = _in_pieces([*lines, (rest, False)])
        self._rest = rest + held
        return lines

    @staticmethod
    def _split_bars(text: str, final: bool) -> tuple[list[tuple[str, bool]], str, str]:
        held = "\r" if text.endswith("\r") and not final else ""  # the next chunk may begin with \n
        text = text.removesuffix("\r") if held else text
        lines, start = [], 0
        for match in _BREAK.finditer(text):
            lines.append((text[start : match.start()], match.group() == "\r"))
            start = match.end()
        return lines, text[start:], held


def _in_pieces(lines: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Split lines so that no line is longer than LONGEST."""
    pieces = []
    for line, is_bar in lines:
        while len(line) > LONGEST:
            pieces.append((line[:LONGEST], False))
            line = line[LONGEST:]
        pieces.append((line, is_bar))
    return pieces


TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"[^\W\d][\w.<>]*(: |:?$)")
_OF_A_CHILD = "subprocess.CalledProcessError: "
_CHILD_LINES = 400  # the maximum number of lines from a child process's traceback to the one of its parent
_CHAINED = ("During handling of the above exception, an", "The above exception was the direct cause of ")
_NO_PYTHON = re.compile(r"(?:SyntaxError|IndentationError|TabError): ")
CRASH = "Fatal Python error: "  # begins Python's message about a crash, before the stacks of the threads
# Messages of C++ code before it aborts: about a failed check in TensorFlow, an exception, or a damaged heap.
_ABORTS = re.compile(
    r"F\d{4} [\d:.]+ |\d{4}-\d\d-\d\d [\d:.]+: F |terminate called |double free|free\(\): |malloc\(\): |corrupted "
)
# TensorFlow's errors when a peer is gone. Without an exception, the end of the log is searched for them.
PEER_GONE = re.compile(
    r"UnavailableError|AbortedError|CancelledError|DeadlineExceededError"
    r"|Connection (?:reset|refused|closed by peer)|Gloo [\w-]+ failed|Socket closed|failed to connect to all addresses"
    r"|[Hh]eartbeat timeout|coordination service|CoordinationService"
)
_MOST_OF_C = 60  # the maximum number of lines of a C++ stack before Python's stack


def last_traceback(lines: Sequence[str], end: int | None = None) -> int | None:
    """Return the index of the first line of the last Python traceback, which may belong to an exception group.

    The traceback may follow a progress bar on the same line, since an exception leaves the bar's line unfinished. If
    `end` is not None, only the lines before this index are considered.
    """
    last = len(lines) if end is None else end
    return next((number for number in range(last - 1, -1, -1) if _begins(lines, number)), None)


def chained_traceback(lines: Sequence[str]) -> int | None:
    """Return the index of the line where the last traceback begins; if it ends a chain, where the chain begins.

    The lines may lack the beginning of the chain. The traceback of a child process, and the CalledProcessError that the
    program raises because of that, are a chain, too.
    """
    start, end = last_traceback(lines), len(lines)
    while start is not None and (before := _traceback_of_cause(lines, start, end)) is not None:
        start, end = before, start
    return start


def _traceback_of_cause(lines: Sequence[str], start: int, end: int) -> int | None:
    """Return where the traceback begins that led to the one in lines[start:end]; None if there is no such traceback."""
    if _is_chained(lines, start):
        return last_traceback(lines, max(0, start - 1))
    if not (last_exception(lines[start:end]) or "").startswith(_OF_A_CHILD):
        return None
    by_child = last_traceback(lines, start)
    return by_child if by_child is not None and start - by_child <= _CHILD_LINES else None


def _is_chained(lines: Sequence[str], start: int) -> bool:
    return any(line.startswith(_CHAINED) for line in lines[max(0, start - 2) : start])


def traceback_start(lines: Sequence[str]) -> int | None:
    """Return the index of the line that begins the last error: a chain of exceptions, a syntax error or a crash.

    If the lines lack the first line of a traceback, return the index of its first frame.
    """
    if (start := chained_traceback(lines)) is not None:
        return 0 if _is_chained(lines, start) else start
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    if said := {number for number, line in enumerate(lines) if _NO_PYTHON.match(line)}:
        return next((number for number in reversed(frames) if said.intersection(range(number, number + 5))), None)
    fatal = next((number for number, line in enumerate(lines) if line.startswith(CRASH)), None)
    if fatal is None:
        return frames[0] if len(frames) > 1 else None
    said_by_c = (number for number in range(fatal - 1, fatal - _MOST_OF_C, -1) if number >= 0)
    return next((number for number in said_by_c if _ABORTS.match(lines[number])), fatal)


def _begins(lines: Sequence[str], number: int) -> bool:
    line, following = lines[number], "".join(lines[number + 1 : number + 2])
    if line.startswith((TRACEBACK, f"  + Exception Group {TRACEBACK}")):
        return True
    return line.endswith(TRACEBACK) and following.startswith('  File "')


def last_exception(lines: Sequence[str]) -> str | None:
    """Return the last line of the last Python traceback in a log: `ValueError: no such thing`."""
    start = last_traceback(lines)
    if start is None:
        return None
    group = lines[start].startswith("  + ")
    said = (line.removeprefix("  | ") if group else line for line in lines[start + 1 :])
    return next((line for line in said if _EXCEPTION.match(line)), None)


def owner_of(file: str) -> str:
    """Return the package that a file belongs to: `Python` for the standard library, "" for the program's own files."""
    if package := _PACKAGE.search(file) or _CYTHON.search(file):
        return package[1].removesuffix(".py")
    return "Python" if _STANDARD.search(file) else "tensorflow" if _GENERATED in file else ""


def is_own(file: str) -> bool:
    """Return whether a frame's file belongs to the program, rather than to a library or to code in a string."""
    return not file.startswith("<") and not owner_of(file)
