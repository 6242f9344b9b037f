"""Writes checkpoints in a thread, one at a time, and keeps the failure of one until somebody asks."""

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
_NODE = re.compile(r"\{\{.*?\}\} ?")  # which TensorFlow puts before its messages
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
        with suppress(RuntimeError):  # `start` knows what to do without a thread
            _writer.begin()

    def start(self, step: int, write: Callable[[], None]) -> None:
        """Call `write` in the thread. Nothing else may be in progress: call `wait` first."""
        _used.add(self)
        order = partial(self._run, write)
        self._busy.acquire()
        self._step = step
        try:
            _writer.put(order)
        except (RuntimeError, MemoryError):  # Python is shutting down, or has no memory for a thread
            order()

    def wait(self) -> None:
        """Wait until nothing is in progress. Raises CheckpointNotSaved if the last one failed, once."""
        self.finish()
        failure, error, self._error = self.failure(), self._error, None
        if failure is not None:
            raise failure from error

    def finish(self) -> None:
        """Wait until nothing is in progress, and keep a failure for `wait`."""
        if self._process != os.getpid():  # a fork has neither the thread nor its checkpoint
            self._busy, self._error, self._process = threading.Lock(), None, os.getpid()
        with self._busy:
            pass

    def is_busy(self) -> bool:
        """Return whether a checkpoint is being written."""
        return self._busy.locked()

    def failure(self) -> CheckpointNotSaved | None:
        """Return the failure that nobody was told of yet."""
        return None if self._error is None else not_saved(self._step, self._directory, self._error)

    def _run(self, write: Callable[[], None]) -> None:
        try:
            write()
        except BaseException as error:  # whatever it is, `wait` raises it
            self._error = error  # nothing here takes memory: there may be none
        finally:
            self._busy.release()


class _Writer:
    """The thread that writes the checkpoints of this process, one after the other.

    It is there before it is needed: `Thread.start` waits for ever for a thread that finds no memory to begin
    (https://github.com/python/cpython/issues/140746).
    """

    def __init__(self) -> None:
        self._orders = SimpleQueue[Callable[[], None] | None]()
        self._process = 0  # whose thread it is: a fork has none
        self._closed = False

    def begin(self) -> None:
        """Start the thread, if there is none. Raises RuntimeError where Python can't."""
        if self._closed:
            raise RuntimeError("The program ends.")
        if self._process != os.getpid():
            self._orders = SimpleQueue()
            # A daemon, since Python would wait for another one at its exit without telling the supervisor why.
            target, args = _carry_out, (self._orders,)
            threading.Thread(target=target, args=args, name="clusterkit checkpoints", daemon=True).start()
            self._process = os.getpid()

    def put(self, order: Callable[[], None]) -> None:
        """Let the thread call it. Raises as `begin` does."""
        self.begin()
        self._orders.put(order)

    def close(self) -> None:
        """End the thread once all is written. Python ends too soon for what comes later."""
        self._closed = True
        self._orders.put(None)


def _carry_out(orders: SimpleQueue[Callable[[], None] | None]) -> None:
    for order in iter(orders.get, None):
        order()
        del order  # with its copy of all variables


def not_saved(step: int, directory: str, error: BaseException) -> CheckpointNotSaved:
    """What a checkpoint's error becomes, to which that is the cause."""
    lines = _NODE.sub("", str(error)).strip().splitlines() or [""]
    return CheckpointNotSaved(
        f"The checkpoint of step {step} could not be saved in {directory}: {type(error).__name__}: {lines[0]}"
    )


_writer = _Writer()
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
    _writer.close()
    if failures := [failure for each in _used if (failure := each.failure()) is not None]:
        for failure in failures:
            print(f"clusterkit: {this_task.task()}: {failure}", file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(FAILED)  # an exception here would not change the exit code
