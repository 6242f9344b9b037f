"""How Keras's `fit` is made to resume: at which epoch, and after which batch. For Keras 2 and Keras 3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def is_keras_2(model: Any) -> bool:
    """Return whether the model is a Keras 2 model (tf_keras)."""
    return hasattr(model, "_maybe_load_initial_counters_from_ckpt")


def build(optimizer: Any, variables: list[Any]) -> None:
    """Create the optimizer's variables if they do not exist yet. Supports Keras 2's legacy optimizers."""
    if hasattr(optimizer, "_create_all_weights"):
        optimizer._create_all_weights(variables)
    elif not (getattr(optimizer, "built", False) or getattr(optimizer, "_built", False)):
        optimizer.build(variables)


class _Counters:
    """Stands in for `model._training_state`, which Keras 2's `fit` asks for its first epoch after `on_train_begin`."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def maybe_load_initial_counters_from_ckpt(self, steps: int, initial_epoch: int, mode: str) -> tuple[int, int]:
        """Return the first epoch, and 0 as its first step: a larger number would not skip any data."""
        return self._epoch, 0


def start_at(model: Any, epoch: int) -> None:
    """Make `fit` start at this epoch, as Keras's BackupAndRestore does. Call it in `on_train_begin`."""
    if is_keras_2(model):
        model._training_state = _Counters(epoch)
    else:
        model._initial_epoch = epoch


def reset_start(model: Any) -> None:
    """Undo `start_at`: make the next `fit` start at its `initial_epoch`."""
    if is_keras_2(model):
        model._training_state = None
    else:
        model._initial_epoch = None


def skip_batches(model: Any, batches: int) -> None:
    """Make `fit` read the first batches without training on them. Call it in `on_train_begin`.

    `fit` counts them as usual, and callbacks see their numbers, without logs.
    """
    train: Callable[[Any], Any] = model.train_function
    left = batches

    def skip(iterator: Any) -> Mapping[str, Any]:
        nonlocal left
        for _ in range(min(left, batches_at_once(model))):
            next(iterator)
            left -= 1
        if left == 0:
            model.train_function = train
        return {}

    model.train_function = skip


def batches_at_once(model: Any) -> int:
    """Return `steps_per_execution`: the number of batches that one call of the training function reads."""
    at_once = model._steps_per_execution if is_keras_2(model) else model.steps_per_execution
    return int(at_once.numpy()) if hasattr(at_once, "numpy") else int(at_once or 1)


def seeds(model: Any) -> list[Any]:
    """Return the state of a Keras 3 model's random layers, such as Dropout, which TensorFlow does not track."""
    if is_keras_2(model):
        return []
    weights = {id(variable) for variable in model.weights}
    return [variable.value for variable in model.variables if id(variable) not in weights]
