"""Reads a run's journal, during the run and afterwards, and waits for the end of the run."""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from clusterkit.store.directory import RunDirectory
from clusterkit.system.files import open_regular
from clusterkit.words import wire
from clusterkit.words.events import Event

KEPT_REPORTS = 40  # the number of progress reports that `newest` keeps for each task
LATEST = wire.LATEST
_PROGRESS = re.compile(rb'"event": "Progressed", "task": "([a-z]+:\d+)"')

Stamped = tuple[float, Event]  # wall time, event
READ_EVERY = 0.05  # seconds; the default time between reads in `follow`
T = TypeVar("T")


class JournalLine(NamedTuple):
    """A line of the journal, decoded as a JSON object, and the offset at which the next line begins."""

    offset: int
    message: dict[str, Any]

    def event(self, clock: str = "t") -> Stamped | None:
        """Return the event with its time: wall time if `clock` is `t`, or time on the run's clock if `clock` is `m`.

        Returns None if the event is unknown, or if its time is missing or invalid.
        """
        try:
            at = float(self.message[clock])
            return (at, wire.decode_event(self.message)) if abs(at) < LATEST else None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            return None

    def timed(self) -> tuple[float, Event, float] | None:
        """Return the event's time on the run's clock, the event, and its wall time; None if any of these is missing."""
        found, wall = self.event("m"), self.message.get("t")
        return (*found, wall) if found and isinstance(wall, int | float) and abs(wall) < LATEST else None


class JournalReader:
    """Reads each line of a journal once, beginning at an offset. Lines that are not JSON objects are skipped."""

    def __init__(self, run: RunDirectory, offset: int = 0) -> None:
        self._path = run.journal
        self.offset = offset  # where the next line begins

    def new(self) -> list[JournalLine]:
        """Return the lines that were written since the last call."""
        return list(_entries(self._lines()))

    def events(self, clock: str = "t") -> list[Stamped]:
        return events_of(self.new(), clock)

    def newest(self) -> list[JournalLine]:
        """Return the same lines as `new`, except outdated progress reports, of which a run may write 100,000 a day."""
        return list(_entries(_without_outdated(self._lines())))

    def skip(self) -> None:
        self._lines()

    def _lines(self) -> list[tuple[int, bytes]]:
        """Return each new line with the offset of the line's end. An incomplete line is left for a later call."""
        lines = list(ended_lines(read_from(self._path, self.offset), self.offset))
        self.offset = lines[-1][0] if lines else self.offset
        return lines


def ended_lines(data: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    """Yield each complete line in `data`, which begins at `offset`, with the offset at which the next line begins."""
    for line in data.split(b"\n")[:-1]:
        offset += len(line) + 1
        yield offset, line


def read_from(path: Path, offset: int, size: int = -1) -> bytes:
    """Read a part of a file, or return no bytes if the file can't be read."""
    try:
        with open_regular(path) as file:
            file.seek(offset)
            return file.read(size)
    except (OSError, MemoryError):  # another user's file may claim any size
        return b""


def events_of(entries: Iterable[JournalLine], clock: str = "t") -> list[Stamped]:
    return [event for entry in entries if (event := entry.event(clock)) is not None]


def _entries(lines: Iterable[tuple[int, bytes]]) -> Iterator[JournalLine]:
    for offset, line in lines:
        if (message := parse_line(line)) is not None:
            yield JournalLine(offset, message)


# Programs may report NaN. Python writes NaN although it is not part of JSON.
_LINES = json.JSONDecoder(parse_constant=lambda _: None)


def parse_line(line: bytes) -> dict[str, Any] | None:
    try:
        message = _LINES.decode(line.decode())
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _without_outdated(lines: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    seen = Counter[bytes]()
    kept = []
    for offset, line in reversed(lines):
        if match := _PROGRESS.search(line, 0, 120):
            seen[match[1]] += 1
            if seen[match[1]] > KEPT_REPORTS:
                continue
        kept.append((offset, line))
    return kept[::-1]


class RunEndWaiter:
    """Waits in a thread until the supervisor releases the run's lock, and then calls `continues`.

    `continues` returns True once another supervisor continues the run, or False if the run has ended.
    """

    def __init__(self, run: RunDirectory, continues: Callable[[], bool] = lambda: False) -> None:
        self._run, self._continues = run, continues
        self._over = threading.Event()
        # A daemon thread, so that a command can exit before the run ends.
        threading.Thread(target=self._wait, name="life", daemon=True).start()

    def is_over(self, timeout: float | None = None) -> bool:
        """Wait for the end of the run, for at most `timeout` seconds, and return whether it has ended."""
        return self._over.wait(timeout)

    def _wait(self) -> None:
        try:
            self._run.wait_until_over()
            while self._continues():
                self._run.wait_until_over()
        finally:
            self._over.set()


def follow(
    read: Callable[[], T], is_over: Callable[[float], bool], every: float = READ_EVERY, timeout: float | None = None
) -> Iterator[T]:
    """Call `read` repeatedly and yield the results. After the end of the run, call `read` once more, then stop.

    `read` is for example `JournalReader(run, offset).new`. `is_over(seconds)` waits up to `seconds` for the
    run to end and returns whether it has ended, as `RunEndWaiter(run).is_over` does; the next read follows at once.
    Raises TimeoutError after `timeout` seconds.
    """
    until = math.inf if timeout is None else time.monotonic() + timeout
    over = False
    while True:
        yield read()
        if over:
            return
        left = until - time.monotonic()
        over = is_over(max(0.0, min(every, left)))
        if left <= 0 and not over:
            raise TimeoutError
