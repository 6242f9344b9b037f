"""Atomic replacement of a file or directory: if the process is killed, the old or the new one is complete."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def replace(old: Path, new: Path) -> None:
    """Rename `new` to `old` and remove the previous `old`; both are in the same directory. Raises OSError."""
    if not os.path.lexists(old) or not (_is_directory(old) or _is_directory(new)):
        new.replace(old)
    elif _exchange(old, new):
        remove(new)
    else:
        _replace_in_two_steps(old, new)


def recover(path: Path) -> None:
    """Finish a replacement of `path` that was interrupted. Raises OSError."""
    aside = _aside(path)
    if not os.path.lexists(path):
        with contextlib.suppress(FileNotFoundError):
            aside.rename(path)
    remove(aside)


def remove(path: Path) -> None:
    """Remove a file or directory as far as possible; ignore one that is already gone."""
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        path.unlink()


def _replace_in_two_steps(old: Path, new: Path) -> None:
    """Replace on file systems that can't exchange two names. `recover` finishes it if it is interrupted."""
    aside = _aside(old)
    remove(aside)
    old.rename(aside)
    try:
        new.rename(old)
    except OSError:
        aside.rename(old)
        raise
    remove(aside)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step. Returns False where the C library or the file system does not support it."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:  # an old C library
        return False
    code: int = rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return code == 0


def _aside(path: Path) -> Path:
    return path.with_name(f".replaced-{path.name}")


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
