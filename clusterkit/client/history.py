"""The history of a run: its journal, read by a client as it grows."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clusterkit.words import wire
from clusterkit.words.events import Event

KEPT = 40  # progress reports of each task that are kept where only the present matters
_PROGRESS = re.compile(rb'"event": "Progressed", "task": "([a-z]+:\d+)"')

Stamped = tuple[float, Event]  # wall time, event


class History:
    """Reads each event once, also while the run writes. What is no event is left out: a newer run may know more."""

    def __init__(self, run: Path, offset: int = 0) -> None:
        self._path = run / "journal.jsonl"
        self.offset = offset

    def lines(self) -> list[bytes]:
        """The lines that are new since the last call. The last one of a live run may be half written: not yet."""
        try:
            with self._path.open("rb") as file:
                file.seek(self.offset)
                data = file.read()
        except OSError:
            return []
        *lines, rest = data.split(b"\n")
        self.offset += len(data) - len(rest)
        return lines

    def new(self) -> list[Stamped]:
        """The events that are new since the last call."""
        return list(_stamped(self.lines()))

    def newest(self) -> list[Stamped]:
        """As `new`, without the progress reports that later ones have overtaken: a day of them is 100,000 lines."""
        return list(_stamped(_thinned(self.lines())))


def messages(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    """The lines that are JSON objects."""
    for line in lines:
        try:
            # Any program can report NaN, which Python writes and reads, and JSON has not.
            message = json.loads(line, parse_constant=lambda _: None)
        except ValueError:
            continue
        if isinstance(message, dict):
            yield message


def stamped(message: dict[str, Any]) -> Stamped | None:
    """A line of the journal as an event."""
    try:
        return float(message["t"]), wire.decode_event(message)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _stamped(lines: list[bytes]) -> Iterator[Stamped]:
    return (event for message in messages(lines) if (event := stamped(message)) is not None)


def _thinned(lines: list[bytes]) -> list[bytes]:
    seen = Counter[bytes]()
    kept = []
    for line in reversed(lines):
        if match := _PROGRESS.search(line, 0, 120):
            seen[match[1]] += 1
            if seen[match[1]] > KEPT:
                continue
        kept.append(line)
    return kept[::-1]
