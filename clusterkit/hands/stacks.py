"""Stacks: what a task wrote into its file on request, found by the header that the supervisor put before it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

LOOK_EVERY = 0.02  # seconds between two looks at a file
QUIET = 0.15  # seconds without a new byte after which a dump is complete


@dataclass(slots=True)
class Dump:
    """The stacks that one attempt is asked for. `asked`: whether the supervisor found that it can be asked."""

    path: Path
    header: bytes
    text: str = ""
    asked: bool = False
    grew_at: float = field(default_factory=time.monotonic)

    def look(self) -> bool:
        """Read what is there; whether that is all."""
        try:
            _, header, after = self.path.read_bytes().rpartition(self.header)
        except OSError:
            return True
        self.asked = bool(header)
        text = after.partition(b"\n--- ")[0].decode(errors="replace")
        if text != self.text:
            self.text, self.grew_at = text, time.monotonic()
        return not self.asked or (bool(self.text) and time.monotonic() - self.grew_at > QUIET)


def dump_of(run: Path, task: str, attempt: int, request: int) -> Dump:
    """Where the answer to a request is written."""
    header = f"--- {task}, attempt {attempt}: request {request}\n".encode()
    return Dump(run / "stacks" / f"{task}.attempt-{attempt}.txt", header)


def collect(dumps: list[Dump], timeout: float) -> None:
    """Wait until every dump is complete, for `timeout` seconds at most: a stopped process writes nothing."""
    until = time.monotonic() + timeout
    pause = threading.Event()
    waiting = dumps
    while (waiting := [dump for dump in waiting if not dump.look()]) and time.monotonic() < until:
        pause.wait(LOOK_EVERY)
