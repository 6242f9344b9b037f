"""Atomic export of a trained model, as a Keras file or a SavedModel."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Final

from clusterkit.training import progress, this_task
from clusterkit.training.checkpoint_store import remove, sync

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
PHASE: Final = "export"
DEFAULTS: Final = {"keras": "model.keras", "saved_model": "model"}  # default names in the run's directory `export`


def export(model: Any, path: str | os.PathLike[str] | None = None, format: str = "keras") -> str | None:
    """Export a trained model atomically: after a kill or a power failure, either the old or the new export exists.

    Some network file systems are an exception, since they can't exchange two directories in one step. There a kill may
    leave the old SavedModel under a hidden name, and the next export to the same path restores it.

    Every worker of a multi-worker job must call this, since reading some variables, such as Keras 2's moving averages,
    involves all workers. Only the chief's export is kept. In other jobs this does nothing except in the chief.

    Args:
        model: a Keras model; for ``saved_model`` also a `tf.Module` or any object that `tf.saved_model.save` accepts.
        path: by default ``export/model.keras`` or ``export/model`` in the run's directory; outside clusterkit in the
            working directory. An existing file or directory is replaced.
        format: ``keras`` (one file, to load in Keras) or ``saved_model`` (a directory, for serving).

    Returns:
        The absolute path in the chief, None elsewhere.

    Raises:
        ValueError: `format` is unknown, or does not fit the model or the path.
    """
    if format not in DEFAULTS:
        raise ValueError(f"Unknown export format {format!r}: use {' or '.join(DEFAULTS)}.")
    target = Path(path).absolute() if path is not None else this_task.run_directory() / "export" / DEFAULTS[format]
    if format == "keras" and (target.suffix != ".keras" or not hasattr(model, "save")):
        raise ValueError(f"Can't export {target} as keras: it needs a Keras model and a path that ends in .keras.")
    if this_task.is_chief() or this_task.is_in_step():
        write = model.save if format == "keras" else partial(_write_saved_model, model)
        return _export(lambda staged: write(str(staged)), target)
    return None


def _export(write: Callable[[Path], None], target: Path) -> str | None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if this_task.is_chief():
        recover(target)
    prefix = f".exporting-{this_task.task().replace(':', '-')}-"
    for leftover in target.parent.glob(f"{prefix}*"):  # files of an interrupted export by this task
        remove(leftover)
    staged = target.parent / f"{prefix}{secrets.token_hex(6)}{target.suffix}"
    try:
        with progress.phase(PHASE):
            write(staged)
        if not this_task.is_chief():
            return None
        sync(staged)  # so that the new name can't reach the disk before the contents
        replace(target, staged)
        return str(target)
    finally:
        remove(staged)


def _write_saved_model(model: Any, path: str) -> None:
    import tensorflow as tf

    if hasattr(model, "export"):  # a Keras model, whose `export` omits objects that only training needs
        # By default, Keras 3 prints a long message that contains the temporary name.
        quiet = {"verbose": False} if "verbose" in signature(model.export).parameters else {}
        model.export(path, **quiet)
    else:
        tf.saved_model.save(model, path)


def replace(old: Path, new: Path) -> None:
    """Rename `new` to `old` and remove the previous `old`; both are in the same directory. Raises OSError."""
    if not os.path.lexists(old) or not (_is_directory(old) or _is_directory(new)):
        new.replace(old)
    elif _exchange(old, new):
        remove(new)
    else:
        _replace_in_two_steps(old, new)


def recover(path: Path) -> None:
    """Clean up after an interrupted replacement; if `path` is missing, restore the old one. Raises OSError."""
    aside = _aside(path)
    if not os.path.lexists(path):
        with contextlib.suppress(FileNotFoundError):
            aside.rename(path)
    remove(aside)


def _replace_in_two_steps(old: Path, new: Path) -> None:
    """Replace `old` by `new` with two renames. If the process is killed in between, `recover` puts the old one back."""
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
    """Exchange two names in one step; return False if the C library or the file system does not support this."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:  # an old C library
        return False
    code: int = rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return code == 0


def _aside(path: Path) -> Path:
    return path.with_name(f".replaced-{path.name}")


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
