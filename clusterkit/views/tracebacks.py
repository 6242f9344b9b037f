"""Shortens the error that ended a task: keeps the program's own lines and the exception, and folds the other lines.

Handles errors in the formats of Python, AutoGraph and TensorFlow's graphs, in logs that may contain any other text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, pairwise

from clusterkit.text.lines import CRASH, owner_of, traceback_start
from clusterkit.text.noise import without_noise
from clusterkit.text.printable import fitted
from clusterkit.text.spelling import listed
from clusterkit.words.model import number_of

RUNTIME = "clusterkit"  # the package that starts the program; its frames do not help to explain a crash
EXTENSIONS = "Extension modules: "  # the last line that a crash prints begins with this text and lists names
MOST = 20  # the maximum number of lines of an error that are shown
_CALLS = (1, 5)  # how many calls are kept at the beginning and at the end of a long sequence of calls
_MESSAGE = (7, 3)  # how many lines are kept at the beginning and at the end of a long message

_FRAME = re.compile(r'(?P<margin>[ |+]*)File "(?P<file>[^"]*)", line (?P<line>\d+)(?:,? in (?P<name>[^*]*?) *\**)?$')
_TITLE = re.compile(r"(?P<before>.*?)(?: ?\+ Exception Group )?Traceback \(most recent call last\):$")
_LINK = re.compile(r"[ |]*(?:During handling of the above exception, an|The above exception was the direct cause of )")
_REPEATED = re.compile(r"[ |]*\[Previous line repeated (\d+) more times?\]$")
_MODULE = re.compile(r"^([ |]*)(?:[^\W\d]\w*\.)+(?=[^\W\d]\w*(?::|$))")  # the module of an exception's class
# The beginning of a line that C++ code logs.
_LOGGED = re.compile(r"[IWEF]\d{4} [\d:.]+ +\d+ \S+\] |\d{4}-\d\d-\d\d [\d:.]+: [IWEF] ")
_REMOTE = re.compile(r"Additional GRPC error information from remote target /job:(\w+)/replica:\d+/task:(\d+) ")
# Lines after an error that only repeat the error, list graph nodes or C++ frames, or contain general advice.
TRANSPORT = re.compile(
    r":UNKNOWN:|\t \[\[|The error could be from a previous operation\.|\*\*\* Check failure stack trace: |    @ +0x"
)
_PLACE = re.compile(r"(\S+:\d+)(?: in |$)")
_SENTENCES = 2  # the maximum number of lines of a message that `error_place` returns
_MARK = re.compile(r"[ |]*[~^]+$")  # a line that marks a part of the source code above it


@dataclass(frozen=True, slots=True)
class _Piece:
    """A line to show. If `kind` is `folded`, the line stands for a frame of the package `of` and is only counted."""

    text: str
    kind: str = "said"  # one of "said", "call", "link" and "folded"
    of: str = ""


def cause_lines(tail: Sequence[str], width: int) -> list[str]:
    """Return the error at the end of a log, in at most MOST lines; without an error, the last lines that are not noise.

    Calls are cut to `width` columns. The error's message is not cut, so that users can copy it and search for it.
    """
    own = without_noise(tail)
    told = _error(own)
    if not told:
        return own[-MOST:]
    if any(line.startswith(CRASH) for line in told):
        told = [line for line in told if not line.startswith(EXTENSIONS) and owner_of_frame(line) != RUNTIME]
    return _fewer(_once(_shown(_of_chain(list(_pieces(told))), width)), (MOST // 2, MOST // 2 - 1), "line")


def error_place(tail: Sequence[str]) -> tuple[str, str]:
    """Return the program's line that raised the error at the end of a log, and the message; empty texts if unknown."""
    pieces = list(_pieces(_error(without_noise(tail))))
    calls = [number for number, piece in enumerate(pieces) if piece.kind == "call" and _PLACE.match(piece.text)]
    if not calls:
        return "", ""
    place = _PLACE.match(pieces[calls[-1]].text)
    said = islice((piece.text.strip() for piece in pieces[calls[-1] :] if piece.kind == "said"), _SENTENCES)
    return "" if place is None else place[1], " ".join(said)


def _error(lines: Sequence[str]) -> list[str]:
    """Return the lines of the error at the end of a log; an empty list if there is no error."""
    start = traceback_start(lines)
    if start is None:
        return []
    told = [lines[start], *(line for line in lines[start + 1 :] if line.strip() and not _LOGGED.match(line))]
    return [line for line in told if not TRANSPORT.match(line)]


def without_frames(traceback: Sequence[str]) -> list[str]:
    """Return a Python traceback in which consecutive frames of packages are replaced by the number of these frames."""
    shown, owners, number = list[str](), list[str](), 0
    while number < len(traceback):
        line, number = traceback[number], number + 1
        frame = _FRAME.match(line)
        end = _end_of_code(traceback, number, frame["margin"]) if frame else number
        owner = owner_of(frame["file"]) if frame else ""
        if owner and end < len(traceback):
            owners.append(owner)
        else:
            shown += [f"  {frames_text(owners)}"] * bool(owners) + [line, *traceback[number:end]]
            owners = []
        number = end
    return shown


def without_module(exception: str) -> str:
    """Return the last line of a traceback without the module of the exception's class."""
    return _MODULE.sub(r"\1", exception)


def owner_of_frame(line: str) -> str:
    """Return the package whose frame a line describes; empty for the program's own frames and for other lines."""
    frame = _FRAME.match(line)
    return owner_of(frame["file"]) if frame else ""


def frames_text(owners: Sequence[str]) -> str:
    """Return a line such as `… 3 frames of keras and tensorflow`."""
    return f"… {number_of('frame', len(owners))} of {listed(dict.fromkeys(owners), 4)}"


def _pieces(lines: Sequence[str]) -> Iterator[_Piece]:
    home: str | None = None  # the directory of the first file that belongs to the program
    number, follows_call = 0, False
    while number < len(lines):
        line = lines[number]
        number += 1
        if frame := _FRAME.match(line):
            end = _end_of_code(lines, number, frame["margin"])
            owner = owner_of(frame["file"])
            if not owner:
                home = frame["file"].rpartition("/")[0] if home is None else home
                yield from _call(frame, lines[number:end], home)
            else:
                yield _Piece("", "folded", owner)
            number, follows_call = end, True
        elif title := _TITLE.match(line):
            if number > 1 and title["before"].strip(" |+-"):  # keep a progress bar that is on the line of the title
                yield _Piece(line)
        elif _LINK.match(line):
            yield _Piece(line, "link")
        elif remote := _REMOTE.match(line):
            yield _Piece(f"(TensorFlow got this from {remote[1]}:{remote[2]}.)")
        elif repeated := _REPEATED.match(line):
            yield _Piece(f"… {repeated[1]} more times", "call")
        else:
            yield _Piece(without_module(line) if follows_call else line)
            follows_call = False


def _end_of_code(lines: Sequence[str], start: int, margin: str) -> int:
    """Return the index of the first line after a frame's source code."""
    end = start
    while end < len(lines) and not _FRAME.match(lines[end]):
        if not lines[end].startswith(margin + "  ") and not _MARK.match(lines[end]):
            break
        end += 1
    return end


def _call(frame: re.Match[str], code: Sequence[str], home: str) -> Iterator[_Piece]:
    """Yield a frame of the program: its place and code and, for a syntax error, the mark below the code."""
    file, margin = frame["file"], frame["margin"][:-2]
    where = f"{margin}{file.removeprefix(f'{home}/') if home else file}:{frame['line']}"
    if frame["name"] is None:
        yield _Piece(where, "call")
        yield from (_Piece(line, "call") for line in code)
    else:
        called = f": {code[0][len(margin) :].strip()}" if code else ""
        yield _Piece(f"{where} in {frame['name']}{called}", "call")


def _of_chain(pieces: list[_Piece]) -> list[_Piece]:
    """Shorten each exception that led to the last one: keep the program's last call and the message's first line."""
    ends = [number for number, piece in enumerate(pieces) if piece.kind == "link"]
    short: list[_Piece] = []
    for start, end in zip([0, *(end + 1 for end in ends)], ends, strict=False):
        part = pieces[start:end]
        short += [piece for piece in part if piece.kind == "call"][-1:]
        short += [*islice((piece for piece in part if piece.kind == "said"), 1), pieces[end]]
    return short + pieces[ends[-1] + 1 :] if ends else pieces


def _shown(pieces: Iterable[_Piece], width: int) -> list[str]:
    lines: list[str] = []
    for kind, run in groupby(pieces, lambda piece: piece.kind):
        if kind == "folded":
            lines.append(frames_text([piece.of for piece in run]))
        elif kind == "call":
            lines += _fewer([fitted(piece.text, width) for piece in run], _CALLS, "call")
        else:
            lines += _fewer([piece.text for piece in run], _MESSAGE, "line")
    return lines


def _once(lines: list[str]) -> list[str]:
    """Remove repetitions of the list in which TensorFlow shows the frames that created a graph node."""
    made = [number for number, line in enumerate(lines) if line.startswith("Detected at node ")]
    for first, second in reversed([*pairwise(made)]):
        if lines[first:second] == lines[second : 2 * second - first]:
            del lines[first:second]
    return lines


def _fewer(lines: list[str], most: tuple[int, int], what: str) -> list[str]:
    """Return the first and last lines, and between them a line with the number of lines that were left out."""
    first, last = most
    if (hidden := len(lines) - first - last) <= 1:
        return lines
    return [*lines[:first], f"… {hidden} more {what}s", *lines[-last:]]
