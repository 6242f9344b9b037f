"""The journal: records everything that happened and was decided in a run, as one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from clusterkit.words import wire
from clusterkit.words.events import Event

OnError = Callable[[str], None]


class Journal:
    """Appends events to a file. In each line, `m` is the run's clock and `t` the wall time, both in seconds.

    After the first error the journal calls `on_error` and writes nothing more.
    """

    def __init__(self, path: Path, wall: Callable[[], float], on_error: OnError) -> None:
        self._file = path.open("ab", buffering=0)
        self._wall = wall
        self._on_error = on_error
        self._failed = False

    def write(self, event: Event, now: float) -> None:
        """Append an event that was handled at `now`, the time of the run's clock."""
        if self._failed:
            return
        line = {"t": round(self._wall(), 6), "m": now, **wire.encode_event(event)}
        rest = memoryview(json.dumps(line).encode() + b"\n")
        try:
            while rest:  # a nearly full disk accepts only a part
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._failed = True
            self._on_error(f"the journal could not be written: {error.strerror}")

    def close(self) -> None:
        self._file.close()
