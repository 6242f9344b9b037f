"""Stack dumps: on request, a task appends its stacks to a file, below a header written by the supervisor."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from clusterkit.store.directory import RunDirectory
from clusterkit.system import procfs
from clusterkit.system.files import end_of, open_fd
from clusterkit.task.entry import STACKS_SIGNAL
from clusterkit.words.errors import CannotLook
from clusterkit.words.model import Task

READ_EVERY = 0.02  # seconds between reads of a dump file
LONGEST = 4 << 20  # bytes; the maximum read from the end of a dump file; the stacks of 100 threads take a fifth of it
# Seconds without a new byte after which a dump counts as complete: if its last line looks final, and if not.
QUIET, QUIET_AT_ANY_LINE = 0.15, 1.0
# The end of a final line: the main thread's outermost frame, or "..." in place of omitted frames and threads.
_LAST = (" in <module>", "<no Python frame>", "...")


@dataclass(slots=True)
class Dump:
    """A stack dump requested from one attempt."""

    path: Path
    header: bytes
    remote: bool = False  # True if the task is on a host, whose agent sends the header together with the stacks
    text: str = ""
    is_requested: bool = False  # True once the file contains the header, which is the request
    grew_at: float = field(default_factory=time.monotonic)

    def read(self) -> bool:
        """Read the file; return whether the dump is complete."""
        seen = b""
        with suppress(OSError):
            seen = end_of(self.path, LONGEST)
        _, header, after = seen.rpartition(self.header)
        self.is_requested = bool(header)
        if not self.is_requested:
            return not self.remote
        text = after.partition(b"\n--- ")[0].decode(errors="replace")
        if text != self.text:
            self.text, self.grew_at = text, time.monotonic()
        quiet = QUIET if self.text.rstrip().endswith(_LAST) else QUIET_AT_ANY_LINE
        return bool(self.text) and time.monotonic() - self.grew_at > quiet

    @property
    def silence(self) -> str:
        """Return the reason why the dump is missing, as text that follows the task's name."""
        if self.is_requested:
            return "does not answer. Is it paused?"
        if self.remote:
            return "sent no stacks: it is not a Python program, has only just started, or its host can't be reached."
        return "has no stacks: it is not a Python program, or has only just started."


def dumps_of(run: RunDirectory, attempts: Iterable[tuple[Task, int]], request: int) -> dict[Task, Dump]:
    info = run.info()
    remote = info is not None and info.job.hosts.count > 0
    return {task: dump_for(run, task, attempt, f"request {request}", remote) for task, attempt in attempts}


def dump_for(run: RunDirectory, task: Task, attempt: int, why: str, remote: bool = False) -> Dump:
    """Return a dump that `request_dump` can then request. `why` is the reason in the dump's header."""
    header = f"--- {task}, attempt {attempt}: {why}\n".encode()
    return Dump(run.stacks(task, attempt), header, remote)


def request_dump(dump: Dump, pid: int) -> None:
    """Request a live task's stacks, unless the task has no handler for the signal, which would then kill the task."""
    with suppress(OSError, CannotLook):
        if not procfs.has_handler(pid, STACKS_SIGNAL):
            return
        # Non-blocking, because the task could have replaced the file with a pipe.
        with open_fd(dump.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK) as file:
            os.write(file, dump.header)
        os.kill(pid, STACKS_SIGNAL)


def collect(dumps: Sequence[Dump], timeout: float, ended: threading.Event | None = None) -> None:
    """Wait until every dump is complete, `timeout` seconds are over, or `ended` is set."""
    until = time.monotonic() + timeout
    pause = ended or threading.Event()
    waiting = list(dumps)
    while (waiting := [dump for dump in waiting if not dump.read()]) and time.monotonic() < until:
        if pause.wait(READ_EVERY):
            return


def remove_empty_dumps(directory: RunDirectory) -> None:
    """Remove the files of stack dumps that were never requested."""
    for dump in directory.all_stacks.glob("*"):
        with suppress(FileNotFoundError):
            if dump.stat().st_size == 0:
                dump.unlink()
