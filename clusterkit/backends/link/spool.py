"""The spool: the run directory on an agent's host, whose files are sent to the supervisor as they grow."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

from clusterkit.backends.link import messages as ms
from clusterkit.backends.link.stream import LONGEST_PART, FileRange
from clusterkit.store.directory import RunDirectory
from clusterkit.words.model import Task

SHARED = ("tensorboard", "export")  # the names of links into the shared run directory, to which tasks write directly
PREFIX = "clusterkit-agent-"
KEPT_SECONDS = 24 * 3600.0  # how long a spool is kept after its last change, since it may hold the only copy of a log
Send = Callable[[ms.FromAgent, bytes | FileRange], None]


class Spool:
    """Keeps the logs of a host's tasks on the host's disk, and sends new parts without keeping them in memory."""

    def __init__(self, order: ms.Open, send: Send) -> None:
        """Create the run directory in the system's temporary directory. Raises RunDirectoryError, OSError."""
        remove_orphans(time.time() - KEPT_SECONDS)
        self._root = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._send = send
        self._sent: dict[Path, int] = {}
        self.directory = RunDirectory(self._root / order.run_id, Path(order.checkpoints))
        self.directory.make()
        self.directory.lock()  # marks the run as live, so that no other clusterkit on this host kills the tasks
        for name in SHARED:
            own, shared = self.directory.path / name, Path(order.run_directory, name)
            shared.mkdir(mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):
                own.rmdir()
            own.symlink_to(shared)

    def send_output(self, task: Task, attempt: int, chunk: bytes) -> None:
        """Send an attempt's new output from its log, which lacks `chunk` if the disk is full."""
        log = self.directory.log(task, attempt)
        try:
            size = log.stat().st_size
        except OSError:  # the log was removed; this is reported when reading the log fails
            size = self._sent.get(log, 0) + len(chunk)
        self._send_new(log, size, lambda offset: ms.Output(task, attempt, time.time()))

    def forward(self) -> None:
        """Send new parts of the other files: stack dumps, reports, and return values of functions."""
        returned = (self.directory.all_tasks.glob(f"*/return-*.{kind}") for kind in ("pkl", "json"))
        for path in chain(self.directory.all_stacks.glob("*.txt"), *returned):
            name = str(path.relative_to(self.directory.path))
            with suppress(OSError):
                self._send_new(path, path.stat().st_size, partial(ms.Written, name))

    def remove(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    def _send_new(self, path: Path, size: int, message: Callable[[int], ms.FromAgent]) -> None:
        """Send the unsent rest of a file of `size` bytes. `message` returns the message for the part at an offset."""
        offset = self._sent.get(path, 0)
        while offset < size:
            part = min(LONGEST_PART, size - offset)
            self._send(message(offset), FileRange(path, offset, part, grows=True))
            self._sent[path] = offset = offset + part


def remove_orphans(before: float) -> None:
    """Delete the spools that this user's killed agents left behind, if last changed before the wall time `before`."""
    for place in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            seen = place.lstat()
            if stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.getuid() and _is_orphan(place, before):
                shutil.rmtree(place, ignore_errors=True)


def _is_orphan(place: Path, before: float) -> bool:
    changed = max(path.lstat().st_mtime for path in [place, *place.rglob("*")])
    return changed < before and not any(RunDirectory(path).is_live() for path in place.iterdir())
