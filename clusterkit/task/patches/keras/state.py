"""Handles variables of Keras 3's layers whose new values each worker computes from its own rows.

A variable that a layer changes in its `call` (such as a running mean or a sum) gets a different value in each worker,
and only the first worker's value is saved. Batch normalization is patched so that all workers store the mean of their
statistics, weighted by rows. Other layers are not patched, but a notice is printed.
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
APART = (
    "BatchNormalization {!r} normalizes by the statistics of each worker's rows, so its results differ from those of "
    "one process. synchronized=True uses the statistics of the whole batch."
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
    fit = load("task/patches/keras/fit")
    moments, call, replace = layer._moments, layer.call, load("task/patches/hook").replace

    def _moments(self: Any, inputs: Any, mask: Any) -> Any:
        step = steps.current()
        if step is None or not step.is_local:
            return moments(self, inputs, mask)
        if not self.synchronized:
            fit.say_once(APART.format(self.name))
            return moments(self, inputs, mask)
        if mask is None:
            return moments(self, inputs[: tf.where(step.rows > 0, tf.shape(inputs)[0], 0)], mask)
        inputs, mask = step.join(inputs, step.span), step.join(mask, step.span)
        with step.mode(local=False):  # Keras does not synchronize statistics of rows with a mask
            return tuple(map(step.shared, moments(self, inputs, mask)))

    def with_statistics(self: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        outputs, step = call(self, inputs, training=training, mask=mask), steps.current()
        if step is not None and step.is_local and training and self.trainable and not self.synchronized:
            average(step, [getattr(self, name) for name in STATISTICS if hasattr(self, name)])
        return outputs

    replace(layer, "_moments", _moments)
    replace(layer, "call", with_statistics)


def average(step: Any, variables: list[Any]) -> None:
    """Set each variable to the mean of its values in all replicas, weighted by the replicas' numbers of rows."""
    tf = step.tf
    own = [variable for variable in variables if variable.aggregation == "none"]
    parts = [tf.math.multiply_no_nan(each.value, tf.cast(step.share, each.value.dtype)) for each in own]
    for variable, mean in zip(own, step.sum_of_all(parts), strict=True):
        variable.value.assign(mean)


def notices(step: Any, model: Any) -> Iterator[str]:
    """Yield warnings about variables of layers whose new values the step computes from this replica's rows alone."""
    if step.graph is None:
        return
    not_shared = {
        id(step.copy_of(vars(variable)["_value"]).handle): NOT_SHARED.format(
            layer.path or type(layer).__name__, variable.name
        )
        for layer in model._flatten_layers()
        for variable in getattr(layer, "_non_trainable_variables", ())
        if variable.aggregation == "none"
    }
    outer = {id(inner): id(outer) for outer, inner in step.graph.captures}
    last = {  # maps the id of a variable's handle to the last assignment of the variable
        outer.get(handle := id(operation.inputs[0]), handle): operation
        for operation in step.graph.get_operations()
        if operation.type in ASSIGNMENTS
    }
    for place, text in not_shared.items():
        if place in last and step.is_of_rows(last[place].inputs[1]):
            yield text


def distribute(strategy: Any, model: Any) -> None:
    """Make metrics that the program created outside the strategy's scope use distributed variables.

    Otherwise each worker would compute different numbers, and callbacks could stop one worker but not another.
    """
    with strategy.scope():
        for metric in model.metrics:
            for variable in metric.variables:
                if not hasattr(variable.value, "_values"):
                    variable._initialize(variable.value.numpy())
