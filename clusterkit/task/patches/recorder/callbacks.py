"""Reads numbers from the attributes of Keras's callbacks, such as `EarlyStopping.best`, and the program's callbacks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

# The attributes of Keras's callbacks that change during training.
KEPT = ("wait", "best", "best_epoch", "stopped_epoch", "cooldown_counter", "epochs_since_last_save")
# Callbacks of Keras and clusterkit that write files, or read the files that they wrote earlier.
WRITERS = frozenset({"ModelCheckpoint", "BackupAndRestore", "TensorBoard", "CSVLogger", "RemoteMonitor", "Backup"})
LIBRARIES = ("keras", "tf_keras", "clusterkit", "tensorflow")


def values_of(callbacks: Iterable[Any]) -> dict[str, float]:
    """Return the callbacks' numbers by name, such as `EarlyStopping.best`, or `EarlyStopping#2.best` for the second."""
    values, seen = dict[str, float](), dict[str, int]()
    for callback in callbacks:
        kind = type(callback)
        seen[kind.__name__] = number = seen.get(kind.__name__, 0) + 1
        name = kind.__name__ if number == 1 else f"{kind.__name__}#{number}"
        is_own = kind.__module__.partition(".")[0] not in LIBRARIES
        attributes = {key: value for key, value in vars(callback).items() if key in KEPT or (is_own and key[:1] != "_")}
        values |= {f"{name}.{key}": number for key, number in numbers(attributes).items()}
    return values


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the values that are numbers, including arrays and tensors with one number, as Python numbers."""
    return {str(key): number for key, value in values.items() if (number := number_of(value)) is not None}


def number_of(value: Any) -> float | None:
    if isinstance(value, bool | int | float):
        return value
    try:
        return float(value.numpy() if hasattr(value, "numpy") else value) if hasattr(value, "dtype") else None
    except (TypeError, ValueError, RuntimeError):
        return None


def without_writers(callbacks: Iterable[Any]) -> list[Any]:
    """Return the callbacks that write no files. Remove the empty directories that the others have created."""
    kept = []
    for callback in callbacks:
        if not is_writer(callback):
            kept.append(callback)
        elif isinstance(
            directory := getattr(callback, "_own_directory", None), str
        ):  # set by task/patches/callbacks.py
            with suppress(OSError):
                os.rmdir(directory)
    return kept


def is_writer(callback: Any) -> bool:
    """Return whether a callback, or a class that its class inherits from, writes files."""
    return any(
        kind.__name__ in WRITERS and kind.__module__.partition(".")[0] in LIBRARIES for kind in type(callback).__mro__
    )
