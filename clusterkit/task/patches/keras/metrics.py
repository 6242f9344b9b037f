"""Divides Keras 3's own metrics among the workers, and updates all others with the whole batch: see step.py."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any


def fixes(trainer: Any) -> tuple[Callable[[Any, Any], None], ...]:
    """Return this file's patch. Raises AttributeError if Keras's internals differ."""
    assert callable(trainer.metrics_module.Metric.update_state)
    return (divide_metrics,)


def divide_metrics(trainer: Any, load: Any) -> None:
    """Patch Keras's metrics of targets and predictions to count a replica's own rows. The sums are added up when read.

    Other metrics are updated by all replicas with the whole batch.
    """
    divided = load("task/patches/keras/divided")
    waiting, seen = [trainer.metrics_module.Metric], set[Any]()
    while waiting:
        kind = waiting.pop()
        waiting.extend(kind.__subclasses__())
        if kind not in seen and divided.is_from_keras(kind) and "update_state" in vars(kind):
            kind.update_state = divided_update(trainer, load, kind.update_state)
        seen.add(kind)


def divided_update(trainer: Any, load: Any, update: Any) -> Any:
    """Return `update_state` of one of Keras's metrics, which counts this replica's rows where it can."""
    tf, steps, divided = trainer.tf, load("task/patches/keras/step"), load("task/patches/keras/divided")

    @wraps(update)
    def update_state(self: Any, *args: Any, **kwargs: Any) -> Any:
        step = steps.whole()
        if step is None:
            return update(self, *args, **kwargs)
        step.results = {}
        if not is_divided(divided, self):
            return update(self, *args, **kwargs)
        leaves, span = divided.parts(tf, step, trainer.tree.flatten((args, kwargs)))
        if span is None:
            return update(self, *args, **kwargs)
        args, kwargs = trainer.tree.pack_sequence_as((args, kwargs), leaves)
        before = [tf.identity(step.copy_of(vars(each)["_value"])) for each in self.variables]
        with step.mode(local=True):
            result = update(self, *args, **kwargs)
            for variable, value in zip(self.variables, before, strict=True):
                copy = step.copy_of(vars(variable)["_value"])
                copy.assign(tf.where(span.size > 0, copy.read_value(), value))
        return result

    update_state.autograph_info__ = None  # type: ignore[attr-defined]
    return update_state


def is_divided(divided: Any, metric: Any) -> bool:
    """Return whether each replica updates a metric with its own rows, and the variables are to be added up."""
    kind = type(metric)
    if hasattr(metric, "metrics"):  # a collection: each of its metrics is updated in its own way
        return False
    if not divided.is_from_keras(kind) or "y_true" not in inspect.signature(kind.update_state).parameters:
        return False
    return bool(divided.is_of_rows(metric._fn)) if hasattr(metric, "_fn") else True


def flat(metrics: Any) -> Iterator[Any]:
    """Yield the metrics, and instead of a collection of metrics those in it."""
    for metric in metrics:
        inner = getattr(metric, "metrics", None)
        if inner is None:
            yield metric
        else:
            yield from flat(inner)


@contextmanager
def reading(trainer: Any, load: Any, step: Any, metrics: Any) -> Iterator[None]:
    """Within the context, the metrics return their results for the rows of all replicas."""
    tf, keras = trainer.tf, load("task/patches/keras/divided")
    scope = sys.modules["keras.src.backend.common.stateless_scope"].StatelessScope
    every = list({id(metric): metric for metric in flat(metrics)}.values())
    divided = [metric for metric in every if is_divided(keras, metric)]
    first = tf.VariableAggregation.ONLY_FIRST_REPLICA
    for metric in every:
        for variable in metric.variables if metric not in divided else ():
            value = vars(variable)["_value"]
            if hasattr(value, "_values"):  # the same in all replicas, so it is not to be added up
                value._aggregation = first

    def read(metric: Any, plain: Any, *args: Any, **kwargs: Any) -> Any:
        if step.is_local:
            return plain(*args, **kwargs)
        is_outermost = step.graph is (None if tf.executing_eagerly() else tf.compat.v1.get_default_graph())
        results = step.results if is_outermost else {}
        if not results:
            variables = [variable for each in divided for variable in each.variables]
            sums = iter(sums_of_all(step, [variable.value for variable in variables]))
            results = {id(each): [next(sums) for _ in each.variables] for each in divided}
        if is_outermost:
            step.results = results
        with scope(state_mapping=list(zip(metric.variables, results[id(metric)], strict=True))):
            return plain(*args, **kwargs)

    for metric in divided:
        vars(metric)["result"] = partial(read, metric, partial(type(metric).result, metric))
    try:
        yield
    finally:
        for metric in divided:
            vars(metric).pop("result", None)


def sums_of_all(step: Any, values: list[Any]) -> list[Any]:
    """Return each value's sum over all replicas. Values of the same data type share one collective operation."""
    tf, sums = step.tf, list(values)
    for kind in dict.fromkeys(value.dtype for value in values):
        places = [place for place, value in enumerate(values) if value.dtype == kind]
        flat = [tf.reshape(tf.convert_to_tensor(values[place]), [-1]) for place in places]
        (total,) = step.sum_of_all([tf.concat(flat, 0)])
        for place, value in zip(places, tf.split(total, [tf.size(each) for each in flat]), strict=True):
            sums[place] = tf.reshape(value, values[place].shape)
    return sums
