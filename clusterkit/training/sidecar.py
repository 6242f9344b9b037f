"""Checkpoints as they come, for an evaluator beside the training; standard library only."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from clusterkit.training import progress, roles
from clusterkit.training.checkpoint_store import Checkpoint, CheckpointStore


class _Sight(NamedTuple):
    """What tells a checkpoint from another of the same step, which a restarted program may have put in its place."""

    path: str
    inode: int
    changed: int


def new_checkpoints(
    poll: float = 1.0, directory: str | os.PathLike[str] | None = None
) -> Generator[Checkpoint, None, None]:
    """Yield the newest intact checkpoint, then each newer one; those that were overtaken meanwhile are left out.

        for checkpoint in training.new_checkpoints():
            checkpointer.restore(checkpoint)
            ...
            training.report(checkpoint.step, accuracy=accuracy)

    It ends with SIGTERM, which it catches in the meantime: what is being evaluated is finished, as far as the grace
    period goes. clusterkit sends it to the evaluator when training is over and the newest checkpoint has been
    evaluated, for which it waits up to 30 seconds. An evaluator that asks for the next one has reported the last.

    Args:
        poll: how often to look for one, in seconds.
        directory: where; by default as `Checkpointer` has it.

    Yields:
        A checkpoint's step and path, for `Checkpointer.restore`.
    """
    path = roles.checkpoint_dir() if directory is None else str(Path(directory).absolute())
    store = CheckpointStore(path, roles.task())
    seen: _Sight | None = None
    yielded: _Sight | None = None
    with _told_to_end() as told:
        while not told.is_set():
            newest = _newest(store)
            if newest is None or newest == seen:
                told.wait(poll)
                continue
            seen = newest
            checkpoint = _intact(store)
            if checkpoint is None or (sight := _sight(checkpoint)) is None or sight == yielded:
                continue
            yielded = sight
            yield checkpoint
            if roles.is_evaluator():
                progress.report(checkpoint.step)


def _newest(store: CheckpointStore) -> _Sight | None:
    """The newest one as it looks from outside, damaged or not: to read all of it each time would take too long."""
    found = store.found()
    return _sight(found[0]) if found else None


def _intact(store: CheckpointStore) -> Checkpoint | None:
    return next((found for found in store.intact() if isinstance(found, Checkpoint)), None)


def _sight(checkpoint: Checkpoint) -> _Sight | None:
    try:
        status = Path(checkpoint.path).stat()
    except FileNotFoundError:  # removed since
        return None
    return _Sight(checkpoint.path, status.st_ino, status.st_mtime_ns)


@contextmanager
def _told_to_end() -> Iterator[threading.Event]:
    """An event that SIGTERM sets, in place of what SIGTERM does otherwise."""
    told = threading.Event()

    def tell(signum: int, frame: FrameType | None) -> None:
        told.set()

    if threading.current_thread() is not threading.main_thread():  # only there can signals be caught
        yield told
        return
    before = signal.signal(signal.SIGTERM, tell)
    try:
        yield told
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)
