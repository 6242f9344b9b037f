"""Lines out of chunks of bytes, split on `\\n` and `\\r` and decoded incrementally, and which of them are noise."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

LONGEST = 1 << 20  # characters; a longer line is shown in pieces, or one without end would fill the memory

_BREAK = re.compile(r"\r\n|\n|\r")
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"[^\W\d][\w.<>]*(: |:?$)")
# What TensorFlow's C++ code logs at level INFO, in absl's form and in the older one.
_INFO = re.compile(r"I[01]\d{3} [\d:.]+ +\d+ [\w./]+:\d+\]|\d{4}-\d\d-\d\d [\d:.]+: I \w+/")
_KNOWN = re.compile(
    r"oneDNN custom operations are on"
    r"|This TensorFlow binary is optimized to use available CPU instructions"
    r"|To enable the following instructions:"
    r"|Could not find cuda drivers on your machine"
    r"|failed call to cuInit"
    r"|Unable to register cu(?:DNN|FFT|BLAS) factory"
    r"|computation placer already registered"
    r"|TF-TRT Warning"
    r"|All log messages before absl::InitializeLog\(\) is called are written to STDERR"
    r"|Skipping registering GPU devices"
    r"|Input of GeneratorDatasetOp::Dataset will not be optimized"
    r"|Local rendezvous is aborting with status: (?:OUT_OF_RANGE|ABORTED: Cleanup)"
)
# Further lines of a message: hidden where its first line is, and shown where that is shown.
_CONTINUED = re.compile(
    r"/job:\w+/replica:\d+/task:\d+$|\t \[\[|Additional GRPC error information from remote target|:UNKNOWN:|:\{|$"
    r"|The error could be from a previous operation\.|The tasks have crashed\."
)
_OPTIONS = "SessionOptions: "  # a protobuf in its text form follows, over many lines
_PROTO = re.compile(r"\s*(?:\w+ \{|\}|\w+: .*|)")
# What every line of noise has in it, after a letter of it: a letter is looked for at ten times the speed of a word.
_CLUES = (
    (b"I", (b": I ", b"cuInit", b"::InitializeLog", b"Input of Gen")),
    (b"D", (b"oneDNN",)),
    (b"T", (b"This TensorFlow", b"To enable the", b"TF-TRT")),
    (b"U", (b"Unable to register cu", b"GPU devices")),
    (b"C", (b"Could not find cuda",)),
    (b"L", (b"Local rendezvous",)),
    (b"y", (b"computation placer already",)),
)
_INFO_CLUE = re.compile(rb"\nI[01]")  # faster than looking for either


class LineSplitter:
    """Turns one stream's chunks into lines. A `\\r` alone ends a line that the next one overwrites."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    @property
    def is_empty(self) -> bool:
        """Whether every line, and every character, that was begun has been returned."""
        return not self._rest and not self._decoder.getstate()[0]

    @property
    def rest(self) -> str:
        r"""The beginning of an incomplete line, without a final `\r`, which may be half of a `\r\n`."""
        return self._rest.removesuffix("\r")

    def feed(self, chunk: bytes) -> list[tuple[str, bool]]:
        """Return the lines that `chunk` completed, each with whether a `\\r` ended it (a progress bar)."""
        return self._split(self._decoder.decode(chunk), final=False)

    def flush(self) -> list[tuple[str, bool]]:
        """Return what is left at the end of the stream."""
        lines = self._split(self._decoder.decode(b"", final=True), final=True)
        if self._rest:
            lines.append((self._rest, False))
            self._rest = ""
        return lines

    def _split(self, new: str, final: bool) -> list[tuple[str, bool]]:
        text = self._rest + new
        if "\r" not in text:  # the common case, at the speed of str.split
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
        held = "\r" if text.endswith("\r") and not final else ""  # its \n may be in the next chunk
        text = text.removesuffix("\r") if held else text
        lines, start = [], 0
        for match in _BREAK.finditer(text):
            lines.append((text[start : match.start()], match.group() == "\r"))
            start = match.end()
        return lines, text[start:], held


def _in_pieces(lines: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """The same lines, none of them longer than LONGEST."""
    pieces = []
    for line, is_bar in lines:
        while len(line) > LONGEST:
            pieces.append((line[:LONGEST], False))
            line = line[LONGEST:]
        pieces.append((line, is_bar))
    return pieces


def last_traceback(lines: Sequence[str]) -> int | None:
    """The number of the line that begins the last Python traceback in a log, perhaps after a progress bar."""
    for number in range(len(lines) - 1, -1, -1):
        line, following = lines[number], lines[number + 1 : number + 2]
        if line.startswith(_TRACEBACK) or (line.endswith(_TRACEBACK) and "".join(following).startswith('  File "')):
            return number
    return None


def last_exception(lines: Sequence[str]) -> str | None:
    """The last line of the last Python traceback in a log: `ValueError: no such thing`."""
    start = last_traceback(lines)
    return None if start is None else next((line for line in lines[start + 1 :] if _EXCEPTION.match(line)), None)


class NoiseFilter:
    """Finds noise in one attempt's output. It remembers whether it is inside a message of many lines."""

    def __init__(self) -> None:
        self._in_noise = False
        self._in_proto = False

    def is_noise(self, line: str) -> bool:
        """Whether the console hides the line by default; the log file has it."""
        if (self._in_proto and _PROTO.fullmatch(line)) or (self._in_noise and _CONTINUED.match(line)):
            return True
        info = _INFO.match(line) is not None
        self._in_proto = info and _OPTIONS in line
        self._in_noise = info or _KNOWN.search(line) is not None
        return self._in_noise

    def may_hide(self, whole: bytes) -> bool:
        """Whether `is_noise` is needed for lines with a newline before and after each."""
        return (
            self._in_noise
            or any(letter in whole and any(clue in whole for clue in clues) for letter, clues in _CLUES)
            or (b"I" in whole and _INFO_CLUE.search(whole) is not None)
        )
