"""The journal: everything that happened and was decided in a run, one JSON object a line, never rewritten."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from clusterkit.words import wire
from clusterkit.words.events import Event

OnError = Callable[[str], None]


class Journal:
    """Appends events. `m` is the time of the run's clock, `t` wall time, both in seconds.

    After an error it writes nothing more, and has called `on_error` once.
    """

    def __init__(self, path: Path, wall: Callable[[], float], on_error: OnError) -> None:
        self._file = path.open("ab", buffering=0)
        self._wall = wall
        self._on_error = on_error
        self._failed = False

    def write(self, event: Event, now: float) -> None:
        """Append an event that was handled at `now`."""
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
        """Close the file."""
        self._file.close()
