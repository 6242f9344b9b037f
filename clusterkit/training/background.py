"""Writes checkpoints in a thread, one at a time, and keeps the failure of one until somebody asks."""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
from collections.abc import Callable

from clusterkit.training import progress, this_task

PHASE = "checkpoint"  # reported to the supervisor while training waits, so that it does not count as a stall
_NODE = re.compile(r"\{\{.*?\}\} ?")  # which TensorFlow puts before its messages
FAILED = 1  # exit code of a program whose last checkpoint was not saved


class CheckpointNotSaved(RuntimeError):
    """A checkpoint could not be written, perhaps after `save` had returned. Its cause is the file system's error."""


class Background:
    """Writes the checkpoints of one `Checkpointer`."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._thread: threading.Thread | None = None
        self._failure: CheckpointNotSaved | None = None
        self._process = os.getpid()

    def start(self, step: int, write: Callable[[], None]) -> None:
        """Call `write` in a thread. Nothing else may be in progress: call `wait` first."""
        # Daemons, since Python would wait for others at its exit without telling the supervisor why.
        self._thread = threading.Thread(
            target=self._run, args=(step, write), name=f"clusterkit checkpoint {step}", daemon=True
        )
        _used.add(self)
        try:
            self._thread.start()
        except RuntimeError:  # Python is shutting down: exit handlers can start no threads
            self._thread = None
            self._run(step, write)

    def wait(self) -> None:
        """Wait until nothing is in progress. Raises CheckpointNotSaved if the last one failed, once."""
        self.finish()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure from failure.__cause__

    def finish(self) -> None:
        """Wait until nothing is in progress, and keep a failure for `wait`."""
        if self._process != os.getpid():  # a fork has neither the thread nor its checkpoint
            self._thread, self._failure, self._process = None, None, os.getpid()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def is_busy(self) -> bool:
        """Return whether a checkpoint is being written."""
        return self._thread is not None and self._thread.is_alive()

    def failure(self) -> CheckpointNotSaved | None:
        """Return the failure that nobody was told of yet."""
        return self._failure

    def _run(self, step: int, write: Callable[[], None]) -> None:
        try:
            write()
        except BaseException as error:  # whatever it is, `wait` raises it
            self._failure = not_saved(step, self._directory, error)
            self._failure.__cause__ = error


def not_saved(step: int, directory: str, error: BaseException) -> CheckpointNotSaved:
    """What a checkpoint's error becomes, to which that is the cause."""
    lines = _NODE.sub("", str(error)).strip().splitlines() or [""]
    return CheckpointNotSaved(
        f"The checkpoint of step {step} could not be saved in {directory}: {type(error).__name__}: {lines[0]}"
    )


_used: set[Background] = set()  # all that have written; one for each `Checkpointer`


def finish_all() -> None:
    """Wait until no checkpoint of this process is in progress: before its directory is read or cleaned."""
    for each in tuple(_used):
        each.finish()


@atexit.register
def _end() -> None:
    """Wait for the last checkpoint. If it failed and nobody knows, print that and exit with an error."""
    if any(each.is_busy() for each in _used):
        with progress.phase(PHASE):
            finish_all()
    if failures := [failure for each in _used if (failure := each.failure()) is not None]:
        for failure in failures:
            print(f"clusterkit: {this_task.task()}: {failure}", file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(FAILED)  # an exception here would not change the exit code
