"""Checkpoints on disk, by whomever they were written."""

from __future__ import annotations

import os
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
    """Give a new run the old one's checkpoints: hard links where the file system has them, else copies.

    Why not the same directory: the old run stays as it was, can be continued again, and can be removed.
    """
    try:
        shutil.copytree(old, new, copy_function=_link, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise RunDirectoryError(f"The checkpoints of {old} can't be taken over into {new}: {error}.") from None


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target
