"""A trained model as a file or a SavedModel: whole or not there at all, written once."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any, Final

from clusterkit.training import progress, replacement, roles

PHASE: Final = "export"
DEFAULTS: Final = {"keras": "model.keras", "saved_model": "model"}  # in the run's directory `export`


def export(model: Any, path: str | os.PathLike[str] | None = None, format: str = "keras") -> str | None:
    """Write a trained model; the chief's is kept. A kill at any moment leaves the old one or the new one.

    Where the file system can't exchange two directories in one step, as some network file systems can't, an old
    SavedModel that was being replaced may have to be put back in its place by the next export to the same path.

    Every worker of a multi-worker job must call this: to read some variables, such as Keras 2's moving averages,
    takes all of them. Elsewhere only the chief does anything.

    Args:
        model: a Keras model; for ``saved_model`` also a `tf.Module` or whatever `tf.saved_model.save` takes.
        path: by default ``export/model.keras`` or ``export/model`` in the run's directory, outside clusterkit in the
            working directory. What is there is replaced.
        format: ``keras`` (one file, to go on with in Keras) or ``saved_model`` (a directory, to serve).

    Returns:
        The absolute path in the chief, None elsewhere.

    Raises:
        ValueError: there is no such format, or the model or the path does not go with it.
    """
    if format not in DEFAULTS:
        raise ValueError(f"There is no export format {format!r}; there are {' and '.join(DEFAULTS)}.")
    target = Path(path).absolute() if path is not None else roles.run_directory() / "export" / DEFAULTS[format]
    if format == "keras" and (target.suffix != ".keras" or not hasattr(model, "save")):
        raise ValueError(f"{target} can't be exported as keras: that takes a Keras model, and a name with .keras.")
    write = _write_keras if format == "keras" else _write_saved_model
    if roles.is_chief() or (roles.in_cluster() and not roles.has_ps()):
        return _export(lambda staged: write(model, str(staged)), target)
    return None


def _export(write: Callable[[Path], None], target: Path) -> str | None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if roles.is_chief():
        replacement.recover(target)
    prefix = f".exporting-{roles.task().replace(':', '-')}-"
    for left in target.parent.glob(f"{prefix}*"):  # by a killed export of this task
        replacement.remove(left)
    staged = target.parent / f"{prefix}{secrets.token_hex(6)}{target.suffix}"
    try:
        with progress.phase(PHASE):
            write(staged)
        if not roles.is_chief():
            return None
        replacement.replace(target, staged)
        return str(target)
    finally:
        replacement.remove(staged)


def _write_keras(model: Any, path: str) -> None:
    model.save(path)


def _write_saved_model(model: Any, path: str) -> None:
    import tensorflow as tf

    if hasattr(model, "export"):  # a Keras model: its `export` leaves out what only training needs
        # Keras 3 tells at length what it has written, by the name it has before it is in its place.
        quiet = {"verbose": False} if "verbose" in signature(model.export).parameters else {}
        model.export(path, **quiet)
    else:
        tf.saved_model.save(model, path)
