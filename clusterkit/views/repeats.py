"""Folds tracebacks and warnings on the console: shows each one only once, and only counts the frames of libraries.

The coordinator logs the error of a closure and each cancelled closure: about a hundred lines for one cause. The console
shows each error type and each message only once. The logs and `--all-output` have the complete text.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from clusterkit.text.lines import CRASH, PEER_GONE, TRACEBACK
from clusterkit.text.noise import Clues, has_clue
from clusterkit.views.tracebacks import (
    EXTENSIONS,
    RUNTIME,
    TRANSPORT,
    frames_text,
    owner_of_frame,
    without_frames,
    without_module,
)
from clusterkit.words.model import number_of

LONGEST = 200  # the maximum number of lines of a traceback that are held back
MOST = 64  # the maximum number of tracebacks and warnings that are remembered
AFTER = 40  # the maximum number of lines below a traceback that may belong to the traceback

# Each line that may be hidden or changed contains one of these texts, or follows such a line.
_CLUES: Clues = (
    (b"T", (TRACEBACK.encode(),)),
    (b"F", (CRASH.encode(),)),
    (b"E", (b"ERROR:tensorflow:",)),  # the beginning of a line about a closure's error
    (b"W", (b"Warning: ",)),
    (b"k", (b"\nclusterkit: ",)),
)
_VARYING = re.compile(r"__autograph_generated_file\w+")
_NODE = re.compile(r"\{\{function_node \S+\}\} ")
_LIBRARY = re.compile(r"/\S*/(?:site|dist)-packages/(\S+: \w*Warning: )")  # a warning, perhaps followed by its code
_TRANSPORT = re.compile(rf"Additional GRPC error information |{TRANSPORT.pattern}")
_OF_PEER = re.compile(rf'{_TRANSPORT.pattern}|  File "|Detected at node |{PEER_GONE.pattern}|Collective ops is aborted')
_OWN = "clusterkit: "  # the beginning of messages that a task's runtime writes to its log
MOST_TEXTS = 64  # the maximum number of error types and messages that are remembered

_HEAD = re.compile(
    r"ERROR:tensorflow: ?(?:/job:\w+/task:\d{1,6} encountered the following error when processing closure"
    r"|(?P<derived>Start cancelling closures due to error|Remote function on worker \S{1,100} failed with))"
    r":? (?P<type>\w{1,100})\("
)
_FRAMES = re.compile(r"Detected at node |  File \"|\t \[\[|Additional GRPC error information |\s*$")
# The last lines of a closure's error begin with one of these texts.
_ENDS = (":UNKNOWN:", "This derived error is ignored", "It is treated as a transient")
_LONGEST = 120  # the maximum number of lines of a closure's error
WITHIN = 0.5  # seconds; how long a line waits for the same line of the other workers
MOST_HELD = 100  # the maximum number of lines of a stream that are held back
FEW = 1 << 12  # bytes; lines in larger chunks are not compared with lines of other workers

_TIMES = re.compile(r"\d+(?:\.\d+)?(?:ms|us|µs|s|m|h)\b(?:/\w+)?|\d+:\d\d(?::\d\d)?|\x1b\[[0-9;]*m")


@dataclass(slots=True)
class ShownTraceback:
    """A traceback that was shown: the output in which it was printed, and the lines that followed it."""

    stream: object
    after: list[str] = field(default_factory=list)


class Repeats:
    """Folds the tracebacks and warnings in one attempt's output. `known` has those that any attempt has shown."""

    def __init__(self, known: dict[tuple[str, ...], ShownTraceback]) -> None:
        self._known = known
        self._held: list[str] = []  # the lines of the current, incomplete traceback
        self._own: ShownTraceback | None = None  # the last traceback of this attempt that was shown
        self._same: list[str] | None = None  # lines that may still follow a traceback that was hidden
        self._owners: list[str] = []  # the packages of hidden frames that are not yet counted on the console
        self._gone = False  # True while lines may belong to the error about a peer that is gone
        self._crashed = False  # True while lines belong to the stacks that a crash prints
        self._warned = False  # True if the next line may be the code that a warning is about
        self._closures = ClosureErrors()

    def may_hide(self, whole: bytes) -> bool:
        """Return whether `feed` may change or hide any of the lines in `whole`."""
        is_open = self._held or self._own is not None or self._same is not None or self._gone or self._warned
        return bool(is_open) or self._closures.is_open or self._crashed or has_clue(whole, _CLUES)

    def feed(self, line: str) -> list[str]:
        """Take a line; return the lines to show now."""
        if not self._held and self._closures.hides(line):
            return []
        before, title, rest = line.partition(TRACEBACK)
        if title and not rest and (not before or before.strip(" |+-").removesuffix("Exception Group")):
            held = [*self._held, *self._counted()]
            self._held, self._own, self._same, self._gone = [TRACEBACK], None, None, False
            return [*held, before] if before else held
        if self._held:
            self._held.append(line)
            if line.startswith(" ") and len(self._held) < LONGEST:
                return []
            return self._ended()
        if self._gone and (not line or _OF_PEER.match(line)):
            return []
        self._gone = False
        if self._crashed or line.startswith(CRASH):
            return self._crash(line)
        return self._after(line) if self._own is not None or self._same is not None else self._warning(line)

    def flush(self) -> list[str]:
        """Return the lines to show at the end of the output."""
        held, self._held = [*self._held, *self._counted()], []
        return held

    def _after(self, line: str) -> list[str]:
        if self._same:
            if self._same[0] == _VARYING.sub("", line):
                del self._same[0]
                return []
        elif self._own is not None and len(self._own.after) < AFTER:
            self._own.after.append(_VARYING.sub("", line))
            return self._node(line)
        if _TRANSPORT.match(line):
            return []
        self._own = self._same = None
        return [*self._counted(), *self._warning(line)]

    def _crash(self, line: str) -> list[str]:
        """Return the lines to show for a line that a crash printed. The frames of libraries are only counted."""
        self._crashed = not line.startswith(EXTENSIONS)
        if not self._crashed or owner_of_frame(line) == RUNTIME:
            return []
        return self._node(line)

    def _node(self, line: str) -> list[str]:
        """Return the lines to show for a line below an exception. Frames of libraries listed there are only counted."""
        if owner := owner_of_frame(line):
            self._owners.append(owner)
        return [] if owner or _TRANSPORT.match(line) or (self._owners and not line) else [*self._counted(), line]

    def _counted(self) -> list[str]:
        owners, self._owners = self._owners, []
        return [f"  {frames_text(owners)}"] if owners else []

    def _warning(self, line: str) -> list[str]:
        warned, self._warned = self._warned, False
        if warned and line.startswith("  "):
            return []
        library = _LIBRARY.match(line)
        if library is None and not line.startswith(_OWN):
            return [line]
        self._warned = library is not None
        if (line,) in self._known:
            return []
        if len(self._known) < MOST:
            self._known[line,] = ShownTraceback(self)
        return [line if library is None else f"{library[1]}{line[library.end() :]}"]

    def _ended(self) -> list[str]:
        held, self._held = self._held, []
        if not held[-1].startswith(" ") and PEER_GONE.search(held[-1]):
            self._gone = True
            said = _NODE.sub("", without_module(held[-1]))
            why = f"cancelled by the {failed} above" if (failed := self._closures.failed) else "a peer is gone"
            return [f"{said} … {number_of('line', len(held) - 1)} of traceback: {why}"]
        key = tuple(_VARYING.sub("", line) for line in held[1:])
        told = self._known.get(key)
        if told is None:
            if len(self._known) < MOST:
                self._own = self._known[key] = ShownTraceback(self)
            return without_frames(held)
        if told.stream is self:
            return without_frames(held)
        self._same = [*told.after]
        name = without_module(held[-1]).partition(":")[0]
        return [f"{name} … {number_of('line', len(held) - 1)} of traceback as above"]


class ClosureErrors:
    """Hides lines of one attempt's output that belong to the errors of closures."""

    def __init__(self) -> None:
        self.failed = ""  # the type of the first error other than a peer's end or a cancellation
        self._shown = set[str]()  # types and texts of earlier errors
        self._new: list[str] = []  # the types and texts of the current error
        self._left = 0  # the number of lines that may still belong to an error; 0 outside of an error
        self._ended = False  # True after one of the error's last lines; only similar lines may follow

    @property
    def is_open(self) -> bool:
        """Whether the next line may belong to an error."""
        return self._left > 0

    def hides(self, line: str) -> bool:
        if head := _HEAD.match(line):
            self._begin()
            if head["derived"] is None and not self.failed and not PEER_GONE.search(head["type"]):
                self.failed = head["type"]
            return head["derived"] is not None or self._was_shown(head["type"])
        if not self._left:
            return False
        self._left -= 1
        if line.startswith(_ENDS):
            self._ended = True
            return True
        if self._ended and not _TRANSPORT.match(line):
            self._left = 0
            return False
        return _FRAMES.match(line) is not None or self._was_shown(line)

    def _begin(self) -> None:
        self._left, self._ended = _LONGEST, False
        self._shown.update(self._new[: max(0, MOST_TEXTS - len(self._shown))])
        self._new.clear()

    def _was_shown(self, text: str) -> bool:
        """Return whether this text was shown for an earlier error. Repetitions within the same error are shown."""
        self._new.append(text)
        return text in self._shown


class LinePrefix(Protocol):
    """A stream of output from one attempt, with a prefix for each line."""

    def line(self, text: str, prefix: str = "") -> str:
        """Return a line to show, with `prefix` or, if `prefix` is empty, with the stream's own prefix."""


class _Held(NamedTuple):
    text: str
    key: str  # equal for lines that differ only in times
    at: float


@dataclass(slots=True)
class _Queue:
    lines: deque[_Held] = field(default_factory=deque)
    is_open: bool = True


class Twins:
    """Joins the lines that all streams have in common. A line waits up to WITHIN seconds for all streams."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix  # the prefix of a line that all streams have in common
        self._queues: dict[LinePrefix, _Queue] = {}

    @property
    def due_at(self) -> float | None:
        """The time by which `settle` must be called; None if no line is held."""
        return min((queue.lines[0].at + WITHIN for queue in self._queues.values() if queue.lines), default=None)

    def feed(self, stream: LinePrefix, lines: Iterable[str], now: float) -> list[str]:
        """Take lines of a stream; return the lines to show now."""
        queue = self._queues.setdefault(stream, _Queue())
        queue.lines.extend(_Held(line, without_times(line), now) for line in lines)
        return self.settle(now)

    def end(self, stream: LinePrefix) -> None:
        """Mark a stream as ended. Its held lines are still shown."""
        if (queue := self._queues.get(stream)) is not None:
            queue.is_open = False
            self._forget()

    def settle(self, now: float) -> list[str]:
        """Return the lines to show at the time `now`."""
        shown = list[str]()
        while heads := {stream: queue.lines[0] for stream, queue in self._queues.items() if queue.lines}:
            oldest = min(heads, key=lambda one: heads[one].at)
            everyone = len(heads) == len(self._queues)
            if everyone and len(heads) > 1 and len({head.key for head in heads.values()}) == 1:
                shown.append(oldest.line(heads[oldest].text, self._prefix))
                for queue in self._queues.values():
                    queue.lines.popleft()
            elif everyone or now >= heads[oldest].at + WITHIN or len(self._queues[oldest].lines) > MOST_HELD:
                order = {stream: (self._is_elsewhere(stream, head.key), head.at) for stream, head in heads.items()}
                first = min(order, key=order.__getitem__) if everyone else oldest
                shown.append(first.line(self._queues[first].lines.popleft().text))
            else:
                break
            self._forget()
        return shown

    def drain(self) -> list[str]:
        return self.settle(float("inf"))

    def _is_elsewhere(self, stream: LinePrefix, key: str) -> bool:
        others = (queue for one, queue in self._queues.items() if one is not stream)
        return any(held.key == key for queue in others for held in queue.lines)

    def _forget(self) -> None:
        self._queues = {stream: queue for stream, queue in self._queues.items() if queue.is_open or queue.lines}


def without_times(line: str) -> str:
    """Return the line with all times replaced, so that the line can be compared with lines of other tasks."""
    return _TIMES.sub("#", line)
