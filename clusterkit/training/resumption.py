"""Where Keras's `fit` goes on: its first epoch, and the batches of it that are left out; of Keras 2 and of Keras 3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def is_keras_2(model: Any) -> bool:
    """Whether the model is one of tf_keras."""
    return hasattr(model, "_maybe_load_initial_counters_from_ckpt")


def build(optimizer: Any, variables: list[Any]) -> None:
    """Make the variables of an optimizer, if it has none yet; also of one of Keras 2's legacy optimizers."""
    if hasattr(optimizer, "_create_all_weights"):
        optimizer._create_all_weights(variables)
    elif not (getattr(optimizer, "built", False) or getattr(optimizer, "_built", False)):
        optimizer.build(variables)


class _Counters:
    """What Keras 2's `fit` asks, once `on_train_begin` is over, for where to begin."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def maybe_load_initial_counters_from_ckpt(self, steps: int, initial_epoch: int, mode: str) -> tuple[int, int]:
        """The epoch, and the number of its first step, which is a number only: it leaves out no data."""
        return self._epoch, 0


def begin_at(model: Any, epoch: int) -> None:
    """In `on_train_begin`: have `fit` begin with this epoch, as Keras's own BackupAndRestore does."""
    if is_keras_2(model):
        model._training_state = _Counters(epoch)
    else:
        model._initial_epoch = epoch


def begin_as_usual(model: Any) -> None:
    """Have the next `fit` begin where it is told to."""
    if is_keras_2(model):
        model._training_state = None
    else:
        model._initial_epoch = None


def leave_out(model: Any, batches: int) -> None:
    """In `on_train_begin`: have the training function take the first batches and not train with them.

    So `fit` counts them as it always does, and callbacks see their numbers, without logs.
    """
    train: Callable[[Any], Any] = model.train_function
    left = batches

    def take(iterator: Any) -> Mapping[str, Any]:
        nonlocal left
        for _ in range(min(left, batches_at_once(model))):
            next(iterator)
            left -= 1
        if left == 0:
            model.train_function = train
        return {}

    model.train_function = take


def batches_at_once(model: Any) -> int:
    """`steps_per_execution`: how many batches one call of the training function takes."""
    at_once = model._steps_per_execution if is_keras_2(model) else model.steps_per_execution
    return int(at_once.numpy()) if hasattr(at_once, "numpy") else int(at_once or 1)


def seeds(model: Any) -> list[Any]:
    """The state of a Keras 3 model's random layers, such as Dropout, which TensorFlow does not find by itself."""
    if is_keras_2(model):
        return []
    weights = {id(variable) for variable in model.weights}
    return [variable.value for variable in model.variables if id(variable) not in weights]
