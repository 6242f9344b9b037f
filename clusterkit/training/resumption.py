"""How Keras's `fit` is made to resume: at which epoch, and after which batch. For Keras 2 and Keras 3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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


OWN = "own_"  # the beginning of the names under which Backup saves a model's own optimizers


def own_optimizers(model: Any) -> dict[str, Any]:
    """Return the optimizers of a Keras 3 model beside that of `compile`, such as a GAN's, by their names for Backup.

    TensorFlow finds those that are attributes, and none in a list. What has no variables yet is restored when it has.
    """
    found: dict[str, Any] = {}
    attributes = {name: value for name, value in vars(model).items() if not name.startswith("_self_")}  # TensorFlow's
    for name, value in attributes.items():
        several = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
        )
        found |= {f"{OWN}{name}_{key}": each for key, each in several if _is_optimizer(each)}
        if _is_optimizer(value):
            found[f"{OWN}{name}"] = value
    return {name: each for name, each in found.items() if each is not getattr(model, "optimizer", None)}


def _is_optimizer(value: Any) -> bool:
    return any(kind.__module__ == "keras.src.optimizers.base_optimizer" for kind in type(value).__mro__)


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


def skip_batches(model: Any, batches: int, restore: Callable[[], Mapping[str, Any]]) -> None:
    """Make `fit` read the first batches without training on them. Call it in `on_train_begin`.

    `fit` counts them as usual, and callbacks see their numbers. `restore` is called when they are read; it restores
    the metrics, and what it returns is what `fit` takes for the last batch's logs.
    """
    train: Callable[[Any], Any] = model.train_function
    left = batches

    def skip(iterator: Any) -> Mapping[str, Any]:
        nonlocal left
        for _ in range(min(left, batches_at_once(model))):
            batch = next(iterator)
            left -= 1
        if left:
            return {}
        model.train_function = train
        build_metrics(model, batch)
        return restore()

    model.train_function = skip


def build_metrics(model: Any, batch: Any) -> None:
    """Create the metrics of a Keras 3 model, which `fit` does in its first step; with a strategy, it has already."""
    metrics = None if is_keras_2(model) else getattr(model, "_compile_metrics", None)
    if metrics is not None and not metrics.built:
        model._symbolic_build(data_batch=batch)


def metric_variables(model: Any) -> list[Any]:
    """Return the variables of a Keras 3 model's metrics."""
    if is_keras_2(model):
        return []
    metrics = [metric for metric in model.metrics if getattr(metric, "built", True)]
    return [variable for metric in metrics for variable in metric.variables]


def batches_at_once(model: Any) -> int:
    """Return `steps_per_execution`: the number of batches that one call of the training function reads."""
    at_once = model._steps_per_execution if is_keras_2(model) else model.steps_per_execution
    return int(at_once.numpy()) if hasattr(at_once, "numpy") else int(at_once or 1)


RESULTS = "results"  # the name under which Backup saves the metrics of an epoch that is not over
SEEDS = "_seeds"  # the end of the names under which Checkpointer saves random states


def random_states(objects: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return what random layers of Keras 3, such as Dropout, draw next, by name: TensorFlow does not save it."""
    found = {f"{name}{SEEDS}": _seeds(each) for name, each in objects.items() if _is_of_keras_3(each)}
    return {name: states for name, states in found.items() if states}


def _is_of_keras_3(layer: Any) -> bool:
    return any(kind.__module__ == "keras.src.layers.layer" for kind in type(layer).__mro__)


def _seeds(layer: Any) -> list[Any]:
    weights = {id(variable) for variable in layer.weights}
    return [variable.value for variable in layer.variables if id(variable) not in weights]


def restorable(objects: Mapping[str, Any], entries: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return those of the objects that a checkpoint with these entries can have, by name.

    One of an earlier clusterkit lacks what Checkpointer and Backup have saved only since then.
    """
    saved = {key.partition("/")[0] for key, _ in entries}
    return {
        name: each
        for name, each in objects.items()
        if name in saved or not (name == RESULTS or name.endswith(SEEDS) or name.startswith(OWN))
    }
