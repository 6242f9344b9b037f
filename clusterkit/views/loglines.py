"""Log lines: joins chunks of the tasks' output into lines, and formats the lines."""

from __future__ import annotations

import datetime
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from clusterkit.text.printable import printable
from clusterkit.text.redraws import TerminalLines
from clusterkit.views.console import prefix
from clusterkit.words.model import Task


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a task's output. `at` is the wall time at which the line was complete."""

    at: float
    task: Task
    attempt: int
    text: str


@dataclass(slots=True)
class _Stream:
    lines: TerminalLines = field(default_factory=TerminalLines)
    at: float = 0.0


class LineMaker:
    """Joins chunks into lines, in the order in which the lines end. Only the last state of a progress bar is kept."""

    def __init__(self) -> None:
        self._streams: dict[tuple[Task, int], _Stream] = {}

    def feed(self, at: float, task: Task, attempt: int, chunk: bytes) -> Iterator[LogLine]:
        """Take a chunk of output; yield the lines that end in this chunk."""
        if (task, attempt) not in self._streams:  # the task's older attempts write nothing more: end their last lines
            for key in [key for key in self._streams if key[0] == task]:
                yield from self.end(*key)
            self._streams[task, attempt] = _Stream()
        stream = self._streams[task, attempt]
        stream.at = at
        for text in stream.lines.feed(chunk, at):
            yield LogLine(at, task, attempt, text)

    def due(self, now: float) -> Iterator[LogLine]:
        """Yield the current text of each redrawn line that has to be shown now; `now` is wall time."""
        for (task, attempt), stream in self._streams.items():
            if (state := stream.lines.due(now)) is not None:
                yield LogLine(stream.at, task, attempt, state)

    def end(self, task: Task, attempt: int) -> Iterator[LogLine]:
        """Yield the remaining lines of an attempt after the end of the attempt's output."""
        if stream := self._streams.pop((task, attempt), None):
            for text in stream.lines.flush():
                yield LogLine(stream.at, task, attempt, text)

    def end_all(self) -> Iterator[LogLine]:
        for key, _ in sorted(self._streams.items(), key=lambda item: item[1].at):
            yield from self.end(*key)


class LogText:
    """Formats lines with a prefix for the task and an optional time, or as JSON."""

    def __init__(self, tasks: Collection[Task], color: bool, timestamps: bool, as_json: bool) -> None:
        self._width = max([len(str(task)) for task in tasks], default=0)
        self._color = color
        self._timestamps = timestamps
        self._as_json = as_json

    def text(self, line: LogLine) -> str:
        """Return the formatted line, with its line break."""
        if self._as_json:
            fields = {"t": line.at, "task": str(line.task), "attempt": line.attempt, "line": line.text}
            return json.dumps(fields) + "\n"
        when = f"{moment(line.at)} " if self._timestamps else ""
        return f"{prefix(line.task, self._width, self._color)}{when}{printable(line.text, self._color)}\n"


def moment(at: float) -> str:
    """Format a wall time as local time, with milliseconds and the offset from UTC."""
    return datetime.datetime.fromtimestamp(at).astimezone().isoformat(timespec="milliseconds")
