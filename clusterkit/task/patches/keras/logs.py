"""Makes each replica's step in Keras 3 on several workers return the metrics and losses of the whole batch.

A step returns results of metrics, losses, and numbers that the program computes. A metric's result is computed from the
sum of the replicas' variables, a loss is the sum of the replicas' parts, and any other number is the mean of the
replicas' numbers, weighted by rows. Values of the same data type share one collective operation. A metric function that
returns one number for a batch (such as a mean over tokens) is called with the rows of all replicas, since that number
is in general not a mean of the workers' numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def fixes(trainer: Any) -> tuple[Callable[[Any, Any], None], ...]:
    """Return this file's patches. Raises AttributeError, KeyError or AssertionError if Keras's internals differ."""
    assert callable(trainer.metrics_module.Metric.stateless_result)
    assert callable(trainer.metrics_module.Mean.update_state)
    assert callable(wrapper().update_state)
    return weigh_means, compute_from_all_rows


def wrapper() -> Any:
    """Return Keras's class of metrics that compute a mean of a function's results, such as `MeanSquaredError`."""
    return sys.modules["keras.src.metrics.reduction_metrics"].MeanMetricWrapper


def weigh_means(trainer: Any, load: Any) -> None:
    """Patch the metric `Mean` to weight a scalar by this replica's share of the batch's rows."""
    tf, kind, steps = trainer.tf, trainer.metrics_module.Mean, load("task/patches/keras/step")
    update = kind.update_state

    def update_state(self: Any, values: Any, sample_weight: Any = None) -> Any:
        step = steps.current(tf)
        if step is None or not tf.is_tensor(values) or values.shape.rank != 0:
            return update(self, values, sample_weight)
        if step.is_part(values):
            values = step.as_whole(values)
        return update(self, values, step.share if sample_weight is None else sample_weight)

    load("task/patches/hook").replace(kind, "update_state", update_state)


def compute_from_all_rows(trainer: Any, load: Any) -> None:
    """Patch metrics that wrap a function: if the function returns one number, call it with the rows of all replicas."""
    tf, steps, update = trainer.tf, load("task/patches/keras/step"), wrapper().update_state

    def update_state(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        step, function = steps.current(tf), self._fn
        if step is None:
            return update(self, y_true, y_pred, sample_weight)

        def of_all_rows(y_true: Any, y_pred: Any, **options: Any) -> Any:
            values = function(y_true, y_pred, **options)
            if not tf.is_tensor(values) or values.shape.rank != 0:
                return values
            each = [step.gathered(tf.convert_to_tensor(value)) for value in (y_true, y_pred)]
            return function(*each, **options)  # the same in all replicas; `Mean` weights it by each replica's rows

        self._fn = of_all_rows
        try:
            return update(self, y_true, y_pred, sample_weight)
        finally:
            self._fn = function

    load("task/patches/hook").replace(wrapper(), "update_state", update_state)


@contextmanager
def recording(step: Any, metrics: list[Any], tree: Any) -> Iterator[None]:
    """Within the context, store each tensor that is a result of one of the metrics in `step.results`."""
    for metric in metrics:
        vars(metric)["result"] = _recorded(step, metric, tree)
    try:
        yield
    finally:
        for metric in metrics:
            vars(metric).pop("result", None)


def _recorded(step: Any, metric: Any, tree: Any) -> Callable[[], Any]:
    plain = type(metric).result

    def result() -> Any:
        values = tree.map_structure(lambda value: _read(step.tf, value), plain(metric))
        for place, value in enumerate(tree.flatten(values)):
            if isinstance(value, step.tf.Tensor):
                step.results[value.ref()] = metric, place
        return values

    return result


def of_all_replicas(step: Any, outputs: Any, tree: Any, wider: Callable[[Any], str]) -> Any:
    """Convert a step's outputs, computed from this replica's rows, into the outputs for the rows of all replicas."""
    leaves = [_read(step.tf, leaf) for leaf in tree.flatten(outputs)]
    tensors = {place: leaf.ref() for place, leaf in enumerate(leaves) if isinstance(leaf, step.tf.Tensor)}
    metric_results = {place: step.results[tensor] for place, tensor in tensors.items() if tensor in step.results}
    metrics = {id(metric): metric for metric, _ in metric_results.values()}
    variables = [variable for metric in metrics.values() for variable in metric.variables]
    others = [place for place, leaf in enumerate(leaves) if place not in metric_results and _is_number(step.tf, leaf)]
    parts = [variable.value for variable in variables] + [_part(step, leaves[place]) for place in others]
    sums = iter(_sums(step, parts, wider))
    totals = {id(variable): next(sums) for variable in variables}
    for place in others:
        leaves[place] = _restored(step.tf, next(sums), leaves[place])
    results = {
        key: tree.flatten(metric.stateless_result([totals[id(variable)] for variable in metric.variables]))
        for key, metric in metrics.items()
    }
    for place, (metric, number) in metric_results.items():
        leaves[place] = results[id(metric)][number]
    for place, leaf in enumerate(leaves):
        if _has_rows(step.tf, leaf):
            leaves[place] = step.gathered(leaf)
    return tree.pack_sequence_as(outputs, leaves)


def _read(tf: Any, value: Any) -> Any:
    """Return the value of a TensorFlow or Keras variable; return any other object unchanged."""
    value = value if callable(getattr(value, "value", None)) else getattr(value, "value", value)
    return tf.convert_to_tensor(value) if isinstance(value, tf.Variable) else value


def _is_number(tf: Any, leaf: Any) -> bool:
    return (
        isinstance(leaf, tf.Tensor)
        and leaf.shape.is_fully_defined()
        and (leaf.dtype.is_floating or leaf.dtype.is_integer)
    )


def _has_rows(tf: Any, leaf: Any) -> bool:
    if not isinstance(leaf, tf.Tensor) or not leaf.shape.rank or leaf.dtype == tf.string:
        return False
    return leaf.shape[0] is None and leaf.shape[1:].is_fully_defined()


def _part(step: Any, leaf: Any) -> Any:
    if step.is_part(leaf):
        return leaf
    value = leaf if leaf.dtype.is_floating else step.tf.cast(leaf, "float64")
    return step.tf.math.multiply_no_nan(value, step.tf.cast(step.share, value.dtype))


def _restored(tf: Any, total: Any, leaf: Any) -> Any:
    return total if leaf.dtype.is_floating else tf.cast(tf.round(total), leaf.dtype)


def _sums(step: Any, values: list[Any], wider: Callable[[Any], str]) -> list[Any]:
    """Return each value's sum over all replicas. Values of the same data type share one collective operation."""
    tf, sums = step.tf, list(values)
    for kind in dict.fromkeys(wider(value.dtype) for value in values):
        places = [place for place, value in enumerate(values) if wider(value.dtype) == kind]
        flat = [tf.reshape(tf.cast(values[place], kind), [-1]) for place in places]
        total = step.all_reduced(tf.concat(flat, 0))
        for place, part in zip(places, tf.split(total, [tf.size(each) for each in flat]), strict=True):
            sums[place] = tf.cast(tf.reshape(part, tf.shape(values[place])), values[place].dtype)
            sums[place].set_shape(values[place].shape)
    return sums
