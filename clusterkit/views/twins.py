"""Shows lines once that all workers print at about the same time, such as Keras' epochs, on a terminal."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

WITHIN = 0.5  # seconds that a line waits for the same line of the other workers
MOST = 100  # lines of a stream that are held, at most
FEW = 1 << 12  # bytes; lines in larger chunks are not compared

_TIMES = re.compile(r"\d+(?:\.\d+)?(?:ms|us|µs|s|m|h)\b(?:/\w+)?|\d+:\d\d(?::\d\d)?|\x1b\[[0-9;]*m")


class LinePrefix(Protocol):
    """A stream of one attempt's output, which adds its prefix to lines."""

    def line(self, text: str, prefix: str = "") -> str:
        """Return a line to show, with the stream's own prefix or another one."""


class _Held(NamedTuple):
    text: str
    key: str  # equal for lines that differ only in times
    at: float


@dataclass(slots=True)
class _Queue:
    lines: deque[_Held] = field(default_factory=deque)
    is_open: bool = True


class Twins:
    """Holds lines until all streams have the same line, or for WITHIN seconds. The order within a stream is kept."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix  # the prefix of a line that all streams have
        self._queues: dict[LinePrefix, _Queue] = {}

    @property
    def due_at(self) -> float | None:
        """The time at which `settle` has to be called at the latest; None if no line is held."""
        return min((queue.lines[0].at + WITHIN for queue in self._queues.values() if queue.lines), default=None)

    def feed(self, stream: LinePrefix, lines: Iterable[str], now: float) -> list[str]:
        """Take lines of a stream; return the lines to show now."""
        queue = self._queues.setdefault(stream, _Queue())
        queue.lines.extend(_Held(line, without_times(line), now) for line in lines)
        return self.settle(now)

    def end(self, stream: LinePrefix) -> None:
        """Take no more lines of a stream. Its held lines are still shown."""
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
            elif everyone or now >= heads[oldest].at + WITHIN or len(self._queues[oldest].lines) > MOST:
                order = {stream: (self._is_elsewhere(stream, head.key), head.at) for stream, head in heads.items()}
                first = min(order, key=order.__getitem__) if everyone else oldest
                shown.append(first.line(self._queues[first].lines.popleft().text))
            else:
                break
            self._forget()
        return shown

    def drain(self) -> list[str]:
        """Return all held lines."""
        return self.settle(float("inf"))

    def _is_elsewhere(self, stream: LinePrefix, key: str) -> bool:
        others = (queue for one, queue in self._queues.items() if one is not stream)
        return any(held.key == key for queue in others for held in queue.lines)

    def _forget(self) -> None:
        self._queues = {stream: queue for stream, queue in self._queues.items() if queue.is_open or queue.lines}


def without_times(line: str) -> str:
    """Return the line with its times replaced, to compare it with lines of other tasks."""
    return _TIMES.sub("#", line)
