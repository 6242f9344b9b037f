"""Writes checkpoints in a thread, one at a time, and stores an error until the program waits for the checkpoint."""

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

PHASE = "checkpoint"  # the phase that is reported while training waits, so that the wait does not count as a stall
_NODE = re.compile(r"\{\{.*?\}\} ?")  # a graph node in a TensorFlow message
FAILED = 1  # exit code of a program whose last checkpoint was not saved


class CheckpointNotSaved(RuntimeError):
    """A checkpoint could not be written, perhaps after `save` had returned. `__cause__` is the original error."""


class Background:
    """Writes the checkpoints of one `Checkpointer`."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._busy = threading.Lock()  # held while a checkpoint is written
        self._step = 0
        self._error: BaseException | None = None
        self._process = os.getpid()
        with suppress(RuntimeError):  # without a thread, `start` writes the checkpoint itself
            _writer.begin()

    def start(self, step: int, write: Callable[[], None]) -> None:
        """Call `write` in the thread. The caller must have called `wait`, so that no checkpoint is in progress."""
        _writers_in_use.add(self)
        job = partial(self._run, write)
        self._busy.acquire()
        self._step = step
        try:
            _writer.put(job)
        except (RuntimeError, MemoryError):  # Python is shutting down, or has no memory for a thread
            job()

    def wait(self) -> None:
        """Wait until no checkpoint is in progress. Raises CheckpointNotSaved once if the last one failed."""
        self.finish()
        failure, error, self._error = self.failure(), self._error, None
        if failure is not None:
            raise failure from error

    def finish(self) -> None:
        """Wait until no checkpoint is in progress; keep a failure for `wait`."""
        if self._process != os.getpid():  # a forked child has no thread, and no checkpoint in progress
            self._busy, self._error, self._process = threading.Lock(), None, os.getpid()
        with self._busy:
            pass

    def is_busy(self) -> bool:
        return self._busy.locked()

    def failure(self) -> CheckpointNotSaved | None:
        """Return the last checkpoint's failure if `wait` has not raised it yet."""
        return None if self._error is None else not_saved(self._step, self._directory, self._error)

    def _run(self, write: Callable[[], None]) -> None:
        try:
            write()
        except BaseException as error:  # `wait` raises the error later
            self._error = error  # does not allocate memory, which may be exhausted
        finally:
            self._busy.release()


class _Writer:
    """The thread that writes this process's checkpoints one by one.

    The thread starts before the first checkpoint, while memory is available: `Thread.start` blocks forever if the new
    thread can't allocate memory (https://github.com/python/cpython/issues/140746).
    """

    def __init__(self) -> None:
        self._jobs = SimpleQueue[Callable[[], None] | None]()
        self._process = 0  # the process in which the thread runs; a forked child has no thread
        self._closed = False

    def begin(self) -> None:
        """Start the thread if it is not running. Raises RuntimeError if Python can't start it."""
        if self._closed:
            raise RuntimeError("The program ends.")
        if self._process != os.getpid():
            self._jobs = SimpleQueue()
            # A daemon thread, since Python's own wait for non-daemon threads at exit would not be reported as a phase.
            target, args = _run_all, (self._jobs,)
            threading.Thread(target=target, args=args, name="clusterkit checkpoints", daemon=True).start()
            self._process = os.getpid()

    def put(self, job: Callable[[], None]) -> None:
        """Queue `job` for the thread. Raises RuntimeError like `begin`."""
        self.begin()
        self._jobs.put(job)

    def close(self) -> None:
        """End the thread after its last job. Later calls of `put` raise, since Python would not run their jobs."""
        self._closed = True
        self._jobs.put(None)


def _run_all(jobs: SimpleQueue[Callable[[], None] | None]) -> None:
    for job in iter(jobs.get, None):
        job()
        del job  # frees the copies of the variables that the job holds


def not_saved(step: int, directory: str, error: BaseException) -> CheckpointNotSaved:
    """Create the exception to raise for a failed checkpoint, with `error` as its cause."""
    lines = _NODE.sub("", str(error)).strip().splitlines() or [""]
    return CheckpointNotSaved(
        f"The checkpoint of step {step} could not be saved in {directory}: {type(error).__name__}: {lines[0]}"
    )


_writer = _Writer()
_writers_in_use: set[Background] = set()  # the Background of each `Checkpointer` that has saved


def finish_all() -> None:
    """Wait until this process is writing no checkpoint, so that checkpoint directories can be read or cleaned."""
    for background in tuple(_writers_in_use):
        background.finish()


@atexit.register
def _end() -> None:
    """Wait for the last checkpoint. If it failed and `wait` was not called, print the error and exit with code 1."""
    if any(each.is_busy() for each in _writers_in_use):
        with progress.phase(PHASE):
            finish_all()
    _writer.close()
    if failures := [failure for each in _writers_in_use if (failure := each.failure()) is not None]:
        for failure in failures:
            print(f"clusterkit: {this_task.task()}: {failure}", file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(FAILED)  # an exception here would not change the exit code
