"""Writes checkpoints in a thread, one at a time, and keeps a failure until the program waits for the checkpoint."""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue

from clusterkit.training import progress, this_task

PHASE = "checkpoint"  # reported to the supervisor while training waits, so that it does not count as a stall
_NODE = re.compile(r"\{\{.*?\}\} ?")  # the graph node that TensorFlow names before a message
FAILED = 1  # exit code of a program whose last checkpoint was not saved


class CheckpointNotSaved(RuntimeError):
    """A checkpoint could not be written, perhaps after `save` had returned. Its cause is the file system's error."""


class Background:
    """Writes the checkpoints of one `Checkpointer`."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._busy = threading.Lock()  # held while a checkpoint is written
        self._step = 0
        self._error: BaseException | None = None
        self._process = os.getpid()
        with suppress(RuntimeError):  # `start` works without a thread, too
            _writer.begin()

    def start(self, step: int, write: Callable[[], None]) -> None:
        """Call `write` in the thread. No checkpoint may be in progress: call `wait` first."""
        _used.add(self)
        job = partial(self._run, write)
        self._busy.acquire()
        self._step = step
        try:
            _writer.put(job)
        except (RuntimeError, MemoryError):  # Python is shutting down, or has no memory for a thread
            job()

    def wait(self) -> None:
        """Wait until no checkpoint is in progress. If the last one failed, raises CheckpointNotSaved once."""
        self.finish()
        failure, error, self._error = self.failure(), self._error, None
        if failure is not None:
            raise failure from error

    def finish(self) -> None:
        """Wait until no checkpoint is in progress; keep a failure for `wait`."""
        if self._process != os.getpid():  # a forked child has neither the thread nor its checkpoint
            self._busy, self._error, self._process = threading.Lock(), None, os.getpid()
        with self._busy:
            pass

    def is_busy(self) -> bool:
        return self._busy.locked()

    def failure(self) -> CheckpointNotSaved | None:
        """Return the failure that `wait` has not raised yet."""
        return None if self._error is None else not_saved(self._step, self._directory, self._error)

    def _run(self, write: Callable[[], None]) -> None:
        try:
            write()
        except BaseException as error:  # `wait` raises it
            self._error = error  # allocates nothing: the memory may be exhausted
        finally:
            self._busy.release()


class _Writer:
    """The thread that writes the checkpoints of this process, one after the other.

    It starts before the first checkpoint, while memory is available: `Thread.start` blocks for ever if the new thread
    finds no memory (https://github.com/python/cpython/issues/140746).
    """

    def __init__(self) -> None:
        self._jobs = SimpleQueue[Callable[[], None] | None]()
        self._process = 0  # the process in which the thread runs; a forked child has no thread
        self._closed = False

    def begin(self) -> None:
        """Start the thread unless it runs. Raises RuntimeError if Python can't start one."""
        if self._closed:
            raise RuntimeError("The program ends.")
        if self._process != os.getpid():
            self._jobs = SimpleQueue()
            # A daemon: at exit Python would wait for any other thread without reporting to the supervisor why.
            target, args = _run_all, (self._jobs,)
            threading.Thread(target=target, args=args, name="clusterkit checkpoints", daemon=True).start()
            self._process = os.getpid()

    def put(self, job: Callable[[], None]) -> None:
        """Have the thread call `job`. Raises like `begin`."""
        self.begin()
        self._jobs.put(job)

    def close(self) -> None:
        """End the thread after its last job. Later jobs are refused: Python would exit before they are done."""
        self._closed = True
        self._jobs.put(None)


def _run_all(jobs: SimpleQueue[Callable[[], None] | None]) -> None:
    for job in iter(jobs.get, None):
        job()
        del job  # and with it the copy of all variables


def not_saved(step: int, directory: str, error: BaseException) -> CheckpointNotSaved:
    """Create the exception to raise for a failed checkpoint, with `error` as its cause."""
    lines = _NODE.sub("", str(error)).strip().splitlines() or [""]
    return CheckpointNotSaved(
        f"The checkpoint of step {step} could not be saved in {directory}: {type(error).__name__}: {lines[0]}"
    )


_writer = _Writer()
_used: set[Background] = set()  # of each `Checkpointer` that has saved


def finish_all() -> None:
    """Wait until no checkpoint of this process is in progress, so that its directory can be read or cleaned."""
    for each in tuple(_used):
        each.finish()


@atexit.register
def _end() -> None:
    """Wait for the last checkpoint. If it failed and `wait` was not called, print that and exit with an error."""
    if any(each.is_busy() for each in _used):
        with progress.phase(PHASE):
            finish_all()
    _writer.close()
    if failures := [failure for each in _used if (failure := each.failure()) is not None]:
        for failure in failures:
            print(f"clusterkit: {this_task.task()}: {failure}", file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(FAILED)  # an exception here would not change the exit code
