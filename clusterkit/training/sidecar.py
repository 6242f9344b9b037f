"""Finds new checkpoints for an evaluator that runs during training. Standard library only."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from clusterkit.training import progress, this_task
from clusterkit.training.checkpoint_store import Checkpoint, CheckpointStore

# Path, inode and mtime, since a restarted program may replace a checkpoint with another of the same step.
_Identity = tuple[str, int, int]


def new_checkpoints(
    poll: float = 1.0, directory: str | os.PathLike[str] | None = None
) -> Generator[Checkpoint, None, None]:
    """Yield the newest intact checkpoint, then each newer one as it appears.

        for checkpoint in training.new_checkpoints():
            checkpointer.restore(checkpoint)
            ...
            training.report(checkpoint.step, accuracy=accuracy)

    If several checkpoints appear during an evaluation, only the newest is yielded. The iteration ends on SIGTERM,
    after the current evaluation. clusterkit sends SIGTERM to the evaluator when training is over and the newest
    checkpoint has been evaluated, or 30 seconds after the end of training, and SIGKILL after the grace period. In the
    evaluator, each iteration reports the previous checkpoint as evaluated.

    Args:
        poll: the time between checks for a new checkpoint, in seconds.
        directory: the checkpoint directory; by default the one that `Checkpointer` uses.

    Yields:
        A checkpoint's step and path, to pass to `Checkpointer.restore`.
    """
    path = this_task.checkpoint_dir() if directory is None else str(Path(directory).absolute())
    store = CheckpointStore(path, this_task.task())
    seen: _Identity | None = None
    yielded: _Identity | None = None
    with _sigterm_event() as ended:
        while not ended.is_set():
            found = store.found()
            newest = _identity(found[0]) if found else None  # not verified, since that takes too long for each poll
            if newest is None or newest == seen:
                ended.wait(poll)
                continue
            seen = newest
            checkpoint = next((found for found in store.intact() if isinstance(found, Checkpoint)), None)
            if checkpoint is None or (identity := _identity(checkpoint)) is None or identity == yielded:
                continue
            yielded = identity
            yield checkpoint
            if this_task.is_evaluator():
                progress.report(checkpoint.step)


def _identity(checkpoint: Checkpoint) -> _Identity | None:
    try:
        status = Path(checkpoint.path).stat()
    except FileNotFoundError:  # the checkpoint has been removed in the meantime
        return None
    return checkpoint.path, status.st_ino, status.st_mtime_ns


@contextmanager
def _sigterm_event() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM sets; afterwards restore the previous handler."""
    ended = threading.Event()

    def on_sigterm(signum: int, frame: FrameType | None) -> None:
        ended.set()

    if threading.current_thread() is not threading.main_thread():  # other threads can't install signal handlers
        yield ended
        return
    previous = signal.signal(signal.SIGTERM, on_sigterm)
    try:
        yield ended
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if previous is None else previous)
