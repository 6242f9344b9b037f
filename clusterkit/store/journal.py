"""Reads a run's journal, also while it is being written, until the run ends."""

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
from clusterkit.words import wire
from clusterkit.words.events import Event

KEPT = 40  # progress reports of each task that are kept if only the current state matters
LATEST = 1e11  # seconds since 1970, within the range of `datetime`
_PROGRESS = re.compile(rb'"event": "Progressed", "task": "([a-z]+:\d+)"')

Stamped = tuple[float, Event]  # wall time, event
LOOK_EVERY = 0.05  # seconds between two calls
T = TypeVar("T")


class JournalLine(NamedTuple):
    """A line of the journal that is a JSON object, and the offset at which the next line begins."""

    offset: int
    message: dict[str, Any]

    def event(self, clock: str = "t") -> Stamped | None:
        """The event with its wall time, or its monotonic time for the clock `m`; None if it is not a known event."""
        try:
            at = float(self.message[clock])
            return (at, wire.decode_event(self.message)) if abs(at) < LATEST else None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            return None

    def timed(self) -> tuple[float, Event, float] | None:
        """The event between its monotonic and its wall time; None if one of them is missing."""
        found, wall = self.event("m"), self.message.get("t")
        return (*found, wall) if found and isinstance(wall, int | float) and abs(wall) < LATEST else None


class JournalReader:
    """Reads each line once, from an offset on. Lines that are not JSON objects are skipped."""

    def __init__(self, run: RunDirectory, offset: int = 0) -> None:
        self._path = run.journal
        self.offset = offset  # where the next line begins

    def new(self) -> list[JournalLine]:
        """The lines since the last call."""
        return list(_entries(self._lines()))

    def events(self, clock: str = "t") -> list[Stamped]:
        return events_of(self.new(), clock)

    def newest(self) -> list[JournalLine]:
        """As `new`, without outdated progress reports, of which a day may have 100,000."""
        return list(_entries(_thinned(self._lines())))

    def skip(self) -> None:
        self._lines()

    def _lines(self) -> list[tuple[int, bytes]]:
        """The new lines with the offsets after them. A line that is not yet complete is read later."""
        lines = []
        for line in read_from(self._path, self.offset).split(b"\n")[:-1]:
            self.offset += len(line) + 1
            lines.append((self.offset, line))
        return lines


def read_from(path: Path, offset: int, size: int = -1) -> bytes:
    """Read a part of a file; nothing if it can't be read."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size)
    except OSError:
        return b""


def events_of(entries: Iterable[JournalLine], clock: str = "t") -> list[Stamped]:
    return [event for entry in entries if (event := entry.event(clock)) is not None]


def _entries(lines: Iterable[tuple[int, bytes]]) -> Iterator[JournalLine]:
    for offset, line in lines:
        if (message := parse_line(line)) is not None:
            yield JournalLine(offset, message)


def parse_line(line: bytes) -> dict[str, Any] | None:
    try:
        # Programs may report NaN, which Python writes although JSON does not have it.
        message = json.loads(line, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _thinned(lines: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    seen = Counter[bytes]()
    kept = []
    for offset, line in reversed(lines):
        if match := _PROGRESS.search(line, 0, 120):
            seen[match[1]] += 1
            if seen[match[1]] > KEPT:
                continue
        kept.append((offset, line))
    return kept[::-1]


class Life:
    """Waits in a thread for the run's supervisor to release its lock, without involving the supervisor.

    Then it calls `continues`, which returns True when another supervisor has the run, and False if none will.
    """

    def __init__(self, run: RunDirectory, continues: Callable[[], bool] = lambda: False) -> None:
        self._run, self._continues = run, continues
        self._over = threading.Event()
        # A daemon, so that a command can exit before the run ends.
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
    read: Callable[[], T], is_over: Callable[[float], bool], every: float = LOOK_EVERY, timeout: float | None = None
) -> Iterator[T]:
    """Call `read` repeatedly until the run is over, and yield what it returns; the last call is after the end.

    `read` is for example `JournalReader(run, offset).new`. `is_over(seconds)`, such as `Life(run).is_over`, returns
    whether the run has ended; it waits up to `seconds` for that, and may return earlier to have `read` called sooner.
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
