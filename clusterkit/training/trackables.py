"""Interprets a Checkpointer's positional arguments: its directory, and objects such as a model or an optimizer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

Directory = str | os.PathLike[str] | None


def split_arguments(given: Sequence[Any], named: Mapping[str, Any]) -> tuple[Directory, dict[str, Any]]:
    """Return the directory and the objects to save, by name: `named`, and those in `given` under default names.

    The default names are `model` and `optimizer`. A tf.train.Checkpoint stands for the objects in it. Raises TypeError
    for an object without a default name or a name that is used twice, and ValueError if there is nothing to save.
    """
    directory: Directory = None
    found = dict(named)
    if "max_to_keep" in named:
        raise TypeError("Checkpointer has no argument max_to_keep. It is called keep here.")
    for one in given:
        if isinstance(one, str | os.PathLike) and directory is None:
            directory = one
        elif one is not None:
            objects = _with_name(one)
            if twice := objects.keys() & found.keys():
                raise TypeError(f"Checkpointer got {' and '.join(sorted(twice))} twice: give each its own name.")
            found |= objects
    if not found:
        raise ValueError("Checkpointer has nothing to save: pass it trackables by name, such as model=model.")
    return directory, found


def _with_name(one: Any) -> dict[str, Any]:
    """Return the object under its default name, or a checkpoint's objects under their names in the checkpoint."""
    if isinstance(one, tf.train.Checkpoint):
        return {name: each for name, each in vars(one).items() if not name.startswith("_")} or {"checkpoint": one}
    usual = {"model": "trainable_variables", "optimizer": "apply_gradients"}
    for name, attribute in usual.items():
        if hasattr(one, attribute) and (name == "optimizer" or callable(one)):
            return {name: one}
    raise TypeError(f"Checkpointer can't name a {type(one).__name__}: pass it by name, such as weights=weights.")
