"""Finds the variables of Keras 3's layers and metrics that each worker changes after its own rows.

Loaded by path: standard library only. A variable that a layer changes in its `call` (a running mean, a sum of what was
seen) has another value in each worker then, and the first worker's is saved. A metric's variables are added up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

APART = (
    "{} changes its variable {!r} by this worker's rows alone: the workers' values differ, and the first worker's is "
    "saved. Add up or average over tf.distribute.get_replica_context().all_reduce first, or give add_weight "
    "aggregation='mean' or 'sum'."
)
SUMMED = (
    "The metric {} assigns its variable {!r} a value of this worker's rows. The workers' values are added up, which is "
    "right for sums and counts only."
)
ASSIGNMENTS = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


def notices(step: Any, model: Any) -> Iterator[str]:
    """Yield a sentence for each variable of a model that the step, a graph, changes by the replica's own rows."""
    if step.is_eager:
        return
    graph = step.share.graph
    found = {id(inner): outer for outer, inner in graph.captures}
    changed = {
        id(found.get(id(operation.inputs[0]), operation.inputs[0])): is_sum(operation)
        for operation in graph.get_operations()
        if operation.type in ASSIGNMENTS and step.is_of_rows(operation.inputs[1])
    }
    metrics = {id(variable) for metric in model.metrics for variable in metric.variables}
    for layer in model._flatten_layers():
        for variable in getattr(layer, "_non_trainable_variables", ()):
            if id(variable) not in metrics and variable.aggregation == "none" and _handle(variable) in changed:
                yield APART.format(layer.path or type(layer).__name__, variable.name)
    for metric in model.metrics:
        for variable in metric.variables:
            if changed.get(_handle(variable)) is False:
                yield SUMMED.format(metric.name, variable.name)


def is_sum(assignment: Any) -> bool:
    """Whether an operation adds something to its variable."""
    value = assignment.inputs[1]
    while value.op.type in ("Identity", "Cast", "Reshape"):
        value = value.op.inputs[0]
    return assignment.type != "AssignVariableOp" or value.op.type in ("Add", "AddV2", "AddN", "Sub")


def distribute(strategy: Any, model: Any) -> None:
    """Give each worker its part of the metrics that the program made outside the strategy's scope.

    Keras would keep each worker's numbers to itself, so that callbacks stop one worker and not the other.
    """
    with strategy.scope():
        for metric in model.metrics:
            for variable in metric.variables:
                if not hasattr(variable.value, "values"):
                    variable._initialize(variable.value.numpy())


def _handle(variable: Any) -> int:
    own = getattr(variable.value, "_get", lambda value=variable.value: value)()
    return id(own.handle)
