"""Log lines: chunks of the tasks' output, put together to lines, and shown."""

from __future__ import annotations

import datetime
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from clusterkit.views.console import prefix
from clusterkit.words.lines import LineSplitter
from clusterkit.words.model import Task
from clusterkit.words.printable import printable


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a task's output, with the wall time at which it was complete."""

    at: float
    task: Task
    attempt: int
    text: str


@dataclass(slots=True)
class _Stream:
    splitter: LineSplitter = field(default_factory=LineSplitter)
    bar: str | None = None
    at: float = 0.0


class LineMaker:
    """Makes lines out of chunks, in the order in which they end. A progress bar is one line: its last state."""

    def __init__(self) -> None:
        self._streams: dict[tuple[Task, int], _Stream] = {}

    def feed(self, at: float, task: Task, attempt: int, chunk: bytes) -> Iterator[LogLine]:
        """The lines that end in this chunk."""
        if (task, attempt) not in self._streams:  # an older attempt has no more output: end its last line
            for key in [key for key in self._streams if key[0] == task]:
                yield from self.end(*key)
            self._streams[task, attempt] = _Stream()
        stream = self._streams[task, attempt]
        stream.at = at
        yield from self._lines(stream, task, attempt, stream.splitter.feed(chunk))

    def end(self, task: Task, attempt: int) -> Iterator[LogLine]:
        """The rest of an attempt's output, which has ended."""
        if stream := self._streams.pop((task, attempt), None):
            yield from self._lines(stream, task, attempt, stream.splitter.flush())
            if stream.bar is not None:
                yield LogLine(stream.at, task, attempt, stream.bar)

    def end_all(self) -> Iterator[LogLine]:
        """The rest of every attempt's output."""
        for key, _ in sorted(self._streams.items(), key=lambda item: item[1].at):
            yield from self.end(*key)

    @staticmethod
    def _lines(stream: _Stream, task: Task, attempt: int, lines: list[tuple[str, bool]]) -> Iterator[LogLine]:
        for text, is_bar in lines:
            stream.bar = (text or stream.bar) if is_bar else None
            if not is_bar:
                yield LogLine(stream.at, task, attempt, text)


class LogText:
    """Formats lines: with the task before each and, if asked for, the time; or as JSON."""

    def __init__(self, tasks: Collection[Task], color: bool, timestamps: bool, as_json: bool) -> None:
        self._width = max([len(str(task)) for task in tasks], default=0)
        self._color = color
        self._timestamps = timestamps
        self._as_json = as_json

    def text(self, line: LogLine) -> str:
        """The formatted line, with its line break."""
        if self._as_json:
            fields = {"t": line.at, "task": str(line.task), "attempt": line.attempt, "line": line.text}
            return json.dumps(fields) + "\n"
        when = f"{moment(line.at)} " if self._timestamps else ""
        return f"{prefix(line.task, self._width, self._color)}{when}{printable(line.text, self._color)}\n"


def moment(at: float) -> str:
    """A wall time as text: local, with milliseconds and the offset from UTC."""
    return datetime.datetime.fromtimestamp(at).astimezone().isoformat(timespec="milliseconds")
