"""Handles variables of Keras 3's layers and metrics whose new values each worker computes from its own rows.

A variable that a layer changes in its `call` (such as a running mean or a sum) gets a different value in each worker,
and only the first worker's value is saved. Batch normalization is patched so that all workers store the mean of their
statistics, weighted by rows. Other layers are not patched, but a notice is printed. The variables of metrics are added
up over the workers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

NOT_SHARED = (
    "{} changes its variable {!r} by this worker's rows alone: the workers' values differ, and the first worker's is "
    "saved. Add up or average over tf.distribute.get_replica_context().all_reduce first, or give add_weight "
    "aggregation='mean' or 'sum'."
)
SUMMED = (
    "The metric {} assigns its variable {!r} a value of this worker's rows. The workers' values are added up, which is "
    "right for sums and counts only."
)
STATISTICS = ("moving_mean", "moving_variance", "moving_stddev", "renorm_mean", "renorm_stddev")
ASSIGNMENTS = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


def fixes(trainer: Any) -> tuple[Callable[[Any, Any], None], ...]:
    """Return this file's patch. Raises AttributeError, KeyError or AssertionError if Keras's internals differ."""
    assert callable(normalization()._moments)
    return (share_statistics,)


def normalization() -> Any:
    return sys.modules["keras.src.layers.normalization.batch_normalization"].BatchNormalization


def share_statistics(trainer: Any, load: Any) -> None:
    """Patch batch normalization to ignore a row of another replica, and to average statistics over all replicas."""
    layer, tf, steps = normalization(), trainer.tf, load("task/patches/keras/step")
    moments, call, replace = layer._moments, layer.call, load("task/patches/hook").replace

    def _moments(self: Any, inputs: Any, mask: Any) -> Any:
        step = steps.current(tf)
        if step is not None and self.synchronized and mask is None:
            inputs = inputs[: tf.where(step.rows > 0, tf.shape(inputs)[0], 0)]
        return moments(self, inputs, mask)

    def with_statistics(self: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        outputs, step = call(self, inputs, training=training, mask=mask), steps.current(tf)
        not_shared = not self.synchronized or mask is not None  # True if Keras itself does not average the statistics
        if step is not None and training and self.trainable and not_shared:
            average(step, [getattr(self, name) for name in STATISTICS if hasattr(self, name)])
        return outputs

    replace(layer, "_moments", _moments)
    replace(layer, "call", with_statistics)


def average(step: Any, variables: list[Any]) -> None:
    """Set each variable to the mean of its values in all replicas, weighted by the replicas' numbers of rows."""
    tf = step.tf
    own = [variable for variable in variables if variable.aggregation == "none"]
    parts = [tf.math.multiply_no_nan(each.value, tf.cast(step.share, each.value.dtype)) for each in own]
    if own:
        for variable, mean in zip(own, tf.distribute.get_replica_context().all_reduce("SUM", parts), strict=True):
            variable.value.assign(mean)


def notices(step: Any, model: Any) -> Iterator[str]:
    """Yield warnings about variables of the model whose new values the step computes from this replica's rows alone."""
    if step.is_eager:
        return

    def key(variable: Any) -> int:
        return id(step.copy_of(variable).handle)

    graph, of_metrics = step.share.graph, [(one, variable) for one in model.metrics for variable in one.variables]
    summed = {key(variable): SUMMED.format(metric.name, variable.name) for metric, variable in of_metrics}
    not_shared = {
        key(variable): NOT_SHARED.format(layer.path or type(layer).__name__, variable.name)
        for layer in model._flatten_layers()
        for variable in getattr(layer, "_non_trainable_variables", ())
        if variable.aggregation == "none" and key(variable) not in summed
    }
    outer = {id(inner): id(outer) for outer, inner in graph.captures}
    last = {  # maps the id of a variable's handle to the last assignment of the variable
        outer.get(handle := id(operation.inputs[0]), handle): operation
        for operation in graph.get_operations()
        if operation.type in ASSIGNMENTS
    }
    watched = not_shared.keys() | summed.keys()
    changed = {
        place: step.is_sum(operation)
        for place, operation in last.items()
        if place in watched and step.is_of_rows(operation.inputs[1])
    }
    yield from (text for place, text in not_shared.items() if place in changed)
    yield from (text for place, text in summed.items() if changed.get(place) is False)


def distribute(strategy: Any, model: Any) -> None:
    """Make metrics that the program created outside the strategy's scope use distributed variables.

    Otherwise each worker would compute different numbers, and callbacks could stop one worker but not another.
    """
    with strategy.scope():
        for metric in model.metrics:
            for variable in metric.variables:
                if not hasattr(variable.value, "values"):
                    variable._initialize(variable.value.numpy())
