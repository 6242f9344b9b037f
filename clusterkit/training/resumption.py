"""Makes the `fit` of Keras 2 and 3 resume at an epoch and a batch, with the data in the same order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from clusterkit.training.batch_order import BatchOrder


def is_keras_2(model: Any) -> bool:
    return hasattr(model, "_maybe_load_initial_counters_from_ckpt")


def build(optimizer: Any, variables: list[Any]) -> None:
    """Create the optimizer's variables if they do not exist yet. Supports Keras 2's legacy optimizers too."""
    if hasattr(optimizer, "_create_all_weights"):
        optimizer._create_all_weights(variables)
    elif not (getattr(optimizer, "built", False) or getattr(optimizer, "_built", False)):
        optimizer.build(variables)


LAYER, OPTIMIZER = "keras.src.layers.layer", "keras.src.optimizers.base_optimizer"  # the modules of the base classes
OWN_PREFIX = "own_"  # the prefix of the names under which Backup saves a model's own optimizers


def own_optimizers(model: Any) -> dict[str, Any]:
    """Return a Keras 3 model's optimizers, except the one passed to `compile`, keyed by the names that Backup uses.

    TensorFlow's checkpoints include optimizers that are attributes of the model, but not those in lists. An optimizer
    that has no variables yet is restored when it creates them.
    """
    found: dict[str, Any] = {}
    # TensorFlow stores its own attributes under names with `_self_`.
    attributes = {name: value for name, value in vars(model).items() if not name.startswith("_self_")}
    for name, value in attributes.items():
        numbered = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
        )
        found |= {f"{OWN_PREFIX}{name}_{key}": each for key, each in numbered if _is_of_keras_3(each, OPTIMIZER)}
        if _is_of_keras_3(value, OPTIMIZER):
            found[f"{OWN_PREFIX}{name}"] = value
    return {name: each for name, each in found.items() if each is not getattr(model, "optimizer", None)}


def _is_of_keras_3(value: Any, module: str) -> bool:
    return any(kind.__module__ == module for kind in type(value).__mro__)


class _FirstEpoch:
    """Replaces `model._training_state`, from which Keras 2's `fit` reads its first epoch, after `on_train_begin`."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def maybe_load_initial_counters_from_ckpt(self, steps: int, initial_epoch: int, mode: str) -> tuple[int, int]:
        """Return the first epoch, and 0 as its first step: Keras would not skip any data for a larger number."""
        return self._epoch, 0


def start_at(model: Any, epoch: int | None) -> None:
    """Make `fit` start at an epoch, as Keras's BackupAndRestore does in `on_train_begin`; None restores the default."""
    if is_keras_2(model):
        model._training_state = None if epoch is None else _FirstEpoch(epoch)
    else:
        model._initial_epoch = epoch


def skip_batches(model: Any, batches: int, restore: Callable[[], Mapping[str, Any]]) -> None:
    """Make `fit` read the first batches without training on them. Call this in `on_train_begin`.

    `fit` counts the skipped batches as usual, and calls the callbacks for them. After the last skipped batch, `restore`
    is called: it restores the metrics and returns the logs for that batch.
    """
    train: Callable[[Any], Any] = model.train_function
    # Keras 2's TensorBoard writes the graph of this function after the first batch, and fails if it was never called.
    graph = getattr(model, "train_tf_function", None)
    left = batches

    def skip(iterator: Any) -> Mapping[str, Any]:
        nonlocal left
        for _ in range(min(left, batches_at_once(model))):
            batch = next(iterator)
            left -= 1
        if left:
            return {}
        model.train_function = train
        if graph is not None:
            model.train_tf_function = graph
        build_metrics(model, batch)
        return restore()

    model.train_function = skip
    if graph is not None:
        model.train_tf_function = None


def build_metrics(model: Any, batch: Any) -> None:
    """Create the metrics of a Keras 3 model, as `fit` does in its first step or, with a strategy, before that step."""
    metrics = None if is_keras_2(model) else getattr(model, "_compile_metrics", None)
    if metrics is not None and not metrics.built:
        model._symbolic_build(data_batch=batch)


def metric_variables(model: Any) -> list[Any]:
    if is_keras_2(model):
        return []
    metrics = [metric for metric in model.metrics if getattr(metric, "built", True)]
    return [variable for metric in metrics for variable in metric.variables]


def batches_at_once(model: Any) -> int:
    """Return `steps_per_execution`: the number of batches that one call of the training function reads."""
    at_once = model._steps_per_execution if is_keras_2(model) else model.steps_per_execution
    return int(at_once.numpy()) if hasattr(at_once, "numpy") else int(at_once or 1)


RESULTS = "results"  # the name under which Backup saves the metrics of an incomplete epoch
SEEDS = "_seeds"  # the suffix of the names under which Checkpointer saves random states


def random_states(objects: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the random states of Keras 3 layers such as Dropout, by name, since TensorFlow does not save them."""
    found = {f"{name}{SEEDS}": _seeds(each) for name, each in objects.items() if _is_of_keras_3(each, LAYER)}
    return {name: states for name, states in found.items() if states}


def _seeds(layer: Any) -> list[Any]:
    weights = {id(variable) for variable in layer.weights}
    return [variable.value for variable in layer.variables if id(variable) not in weights]


def restorable(objects: Mapping[str, Any], entries: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the objects that can be restored from a checkpoint with these entries, by name.

    Checkpoints of earlier versions do not contain results, random states and a model's own optimizers.
    """
    saved = {key.partition("/")[0] for key, _ in entries}
    return {
        name: each
        for name, each in objects.items()
        if name in saved or not (name == RESULTS or name.endswith(SEEDS) or name.startswith(OWN_PREFIX))
    }


class DataOrder:
    """Makes the `fit` of Keras 2 and 3 read the data in the same order after a restart.

    A dataset's shuffle draws from its seed for each new iterator, even if the iterator is not read, and Keras creates
    one or two iterators per epoch. This class counts the iterators. A resumed `fit` first creates as many iterators as
    the interrupted `fit` had created before that epoch. Keras 2 creates one more before the first epoch, also when it
    resumes, so that one does not count.
    """

    def __init__(self) -> None:
        self._iterators_made = 0
        self._iterators_due = 0
        self._epochs_due = 0
        self._data: Any = None  # the TFEpochIterator of this `fit`, or the DataHandler of Keras 2
        self._batches = BatchOrder()

    def begin(self) -> None:
        """Count iterators from now on, until `end`. Call this in `on_train_begin`."""
        if (handler := _handlers()) is not None:
            self._count_epochs_of_keras_2(handler)
        if (kind := _iterators()) is None:
            return
        self._batches.begin()
        plain = getattr(kind._get_iterator, "__wrapped__", kind._get_iterator)

        def _get_iterator(data: Any) -> Any:
            if self._data is None:
                self._data = data
                self._skip(data.data_adapter, plain(data))
            self._iterators_made += data is self._data
            return plain(data)

        _get_iterator.__wrapped__ = plain  # type: ignore[attr-defined]
        kind._get_iterator = _get_iterator

    def _count_epochs_of_keras_2(self, kind: Any) -> None:
        plain = getattr(kind.enumerate_epochs, "__wrapped__", kind.enumerate_epochs)

        def enumerate_epochs(handler: Any) -> Any:
            if self._data is not None:  # an evaluation during this `fit`
                yield from plain(handler)
                return
            self._data = handler
            self._skip(handler._adapter, handler._dataset)
            for epoch, iterator in plain(handler):
                self._iterators_made += bool(handler._adapter.should_recreate_iterator())
                yield epoch, iterator

        enumerate_epochs.__wrapped__ = plain  # type: ignore[attr-defined]
        kind.enumerate_epochs = enumerate_epochs

    def resume(self, iterators: int, epochs: int, batches: Mapping[str, Any] | None = None) -> None:
        """Skip the iterators and epochs of the earlier attempt. Call this in `on_train_begin`."""
        self._iterators_due, self._epochs_due = iterators, epochs
        self._batches.resume(batches)

    def batches_before(self, in_epoch: bool) -> dict[str, Any] | None:
        """Return what determines the order of a PyDataset's batches; None for other data."""
        return self._batches.saved(in_epoch)

    def iterators_before(self, in_epoch: bool) -> int:
        """Return how many iterators were created before the current epoch or, between epochs, before the next one."""
        return self._iterators_made - in_epoch

    def end(self) -> None:
        if (kind := _iterators()) is not None:
            kind._get_iterator = getattr(kind._get_iterator, "__wrapped__", kind._get_iterator)
        if (handler := _handlers()) is not None:
            handler.enumerate_epochs = getattr(handler.enumerate_epochs, "__wrapped__", handler.enumerate_epochs)
        self._batches.end()

    def _skip(self, adapter: Any, dataset: Any) -> None:
        permutations = getattr(adapter, "permutations", None)  # set by task/patches/order.py for arrays
        if permutations is not None and self._epochs_due:
            permutations.assign_add(self._epochs_due)
        for _ in range(self._iterators_due):
            iter(dataset)
        self._iterators_made = self._iterators_due


def _handlers() -> Any:
    return getattr(sys.modules.get("tf_keras.src.engine.data_adapter"), "DataHandler", None)


def _iterators() -> Any:
    return getattr(sys.modules.get("keras.src.backend.tensorflow.trainer"), "TFEpochIterator", None)
