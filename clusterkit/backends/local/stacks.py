"""Stacks: what a task wrote into its file on request, found by the header that the supervisor put before it."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from clusterkit.client.directory import RunDirectory
from clusterkit.system import procfs
from clusterkit.task.entry import STACKS_SIGNAL
from clusterkit.words.errors import CannotLook
from clusterkit.words.model import Task

LOOK_EVERY = 0.02  # seconds between two looks at a file
LONGEST = 4 << 20  # bytes that are read of a file; the stacks of 100 threads have a fifth of it
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
            _, header, after = _end_of(self.path).rpartition(self.header)
        except OSError:
            return True
        self.asked = bool(header)
        text = after.partition(b"\n--- ")[0].decode(errors="replace")
        if text != self.text:
            self.text, self.grew_at = text, time.monotonic()
        return not self.asked or (bool(self.text) and time.monotonic() - self.grew_at > QUIET)


def dump_of(run: RunDirectory, task: Task, attempt: int, request: int) -> Dump:
    """Where the answer to a request is written."""
    return dump_for(run, task, attempt, f"request {request}")


def dump_for(run: RunDirectory, task: Task, attempt: int, why: str) -> Dump:
    """Where the stacks are written that are asked for by `ask` with the same `why`."""
    header = f"--- {task}, attempt {attempt}: {why}\n".encode()
    return Dump(run.stacks(task, attempt), header)


def ask(dump: Dump, pid: int) -> None:
    """Have a live task write its stacks, where it is a Python program; what is not would die of the signal."""
    with suppress(OSError, CannotLook):
        if not procfs.has_handler(pid, STACKS_SIGNAL):
            return
        # Not blocking: the directory is the task's too, and what is there could be a pipe.
        file = os.open(dump.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, dump.header)
        finally:
            os.close(file)
        os.kill(pid, STACKS_SIGNAL)


def _end_of(path: Path) -> bytes:
    """Return the end of a file, which a task can make as large as it likes; b"" if it is not a file. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        seen = os.fstat(descriptor)
        return os.pread(descriptor, LONGEST, max(0, seen.st_size - LONGEST)) if stat.S_ISREG(seen.st_mode) else b""
    finally:
        os.close(descriptor)


def collect(dumps: Sequence[Dump], timeout: float, ended: threading.Event | None = None) -> None:
    """Wait until every dump is complete, for `timeout` seconds at most, or until `ended`.

    A stopped process writes nothing.
    """
    until = time.monotonic() + timeout
    pause = ended or threading.Event()
    waiting = list(dumps)
    while (waiting := [dump for dump in waiting if not dump.look()]) and time.monotonic() < until:
        if pause.wait(LOOK_EVERY):
            return
