"""Checkpoints on disk, by whomever they were written."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

from clusterkit.words.errors import RunDirectoryError

_ENDINGS = (".index", ".keras", ".weights.h5", ".h5", ".ckpt")


def newest_checkpoint(directory: PurePosixPath) -> str | None:
    """The path of what looks most like the newest checkpoint below a directory; None where nothing does."""
    best: tuple[float, str] | None = None
    for path in Path(directory).rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(directory).parts)
        if hidden or not path.name.endswith(_ENDINGS):
            continue
        try:
            found = (path.stat().st_mtime, str(path))
        except OSError:  # removed meanwhile
            continue
        best = max(best, found) if best else found
    return best[1] if best else None


def continue_from(old: Path, new: Path) -> None:
    """Give a new run a copy of the old one's checkpoints; nothing is to do where both have the same directory.

    Why not the old directory: that run stays as it was, can be continued again, and can be removed.
    Why not hard links: a program that writes a checkpoint in place, as Keras does, would write into the old run.
    """
    if old.resolve() == new.resolve():
        return
    try:
        shutil.copytree(old, new, dirs_exist_ok=True)
    except shutil.Error as error:  # carries (source, target, why) of each file
        raise _not_taken_over(old, new, error.args[0][0][2]) from None
    except OSError as error:
        raise _not_taken_over(old, new, error.strerror) from None


def _not_taken_over(old: Path, new: Path, why: object) -> RunDirectoryError:
    return RunDirectoryError(f"The checkpoints of {old} can't be taken over into {new}: {why}.")
