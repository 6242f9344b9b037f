"""Keeps two live runs from using one checkpoint directory, in which each would overwrite or resume the other's work."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from clusterkit.store.directory import RunDirectory
from clusterkit.words.errors import RunDirectoryError


class CheckpointsInUse(RunDirectoryError):
    """Raised if another live run uses the checkpoint directory."""


def lock_checkpoints(run: RunDirectory, runs: Iterable[RunDirectory]) -> tuple[int, ...]:
    """Lock the run's checkpoint directory until the returned descriptors are closed.

    There are none if the file system can't lock directories. Raises CheckpointsInUse if a live run uses the directory.
    `runs` are all runs that may use it. They are searched, too, since a lock is lost if a program deletes the
    directory and creates it again, and since not every file system can lock a directory.
    """
    other = _live_user(run, runs)
    if other is None:
        with suppress(BlockingIOError):
            return _lock_directory(run.checkpoints)
    name = "Another live run" if other is None else f"The live run {other.run_id}"
    stop = "" if other is None else f", or stop that run first: clusterkit down {other.run_id}"
    raise CheckpointsInUse(
        f"{name} already uses the checkpoint directory {run.checkpoints}. Choose another --checkpoint-dir{stop}"
    )


def _lock_directory(directory: Path) -> tuple[int, ...]:
    """Lock a directory, if the file system can do so. Raises BlockingIOError if another process has locked it."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return ()
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:  # NFS locks only what can be opened for writing
        os.close(descriptor)
        return ()
    return (descriptor,)


def is_directory_locked(directory: Path) -> bool:
    """Return whether a live run on this machine uses a directory for its checkpoints."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
    return False


def _live_user(run: RunDirectory, runs: Iterable[RunDirectory]) -> RunDirectory | None:
    """Return another live run that uses the run's checkpoint directory."""
    for other in runs:
        if other.path == run.path or not other.is_live():
            continue
        with suppress(OSError):
            if os.path.samefile(other.used_checkpoints(), run.checkpoints):
                return other
    return None
