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

    def key(variable: Any) -> int:
        return id(step.copy_of(variable).handle)

    graph, of_metrics = step.share.graph, [(one, variable) for one in model.metrics for variable in one.variables]
    summed = {key(variable): SUMMED.format(metric.name, variable.name) for metric, variable in of_metrics}
    apart = {
        key(variable): APART.format(layer.path or type(layer).__name__, variable.name)
        for layer in model._flatten_layers()
        for variable in getattr(layer, "_non_trainable_variables", ())
        if variable.aggregation == "none" and key(variable) not in summed
    }
    outer = {id(inner): id(outer) for outer, inner in graph.captures}
    last = {  # the assignment after which a variable has its value, by variable
        outer.get(handle := id(operation.inputs[0]), handle): operation
        for operation in graph.get_operations()
        if operation.type in ASSIGNMENTS
    }
    watched = apart.keys() | summed.keys()
    changed = {
        place: step.is_sum(operation)
        for place, operation in last.items()
        if place in watched and step.is_of_rows(operation.inputs[1])
    }
    yield from (text for place, text in apart.items() if place in changed)
    yield from (text for place, text in summed.items() if changed.get(place) is False)


def distribute(strategy: Any, model: Any) -> None:
    """Give each worker its part of the metrics that the program made outside the strategy's scope.

    Keras would keep each worker's numbers to itself, so that callbacks stop one worker and not the other.
    """
    with strategy.scope():
        for metric in model.metrics:
            for variable in metric.variables:
                if not hasattr(variable.value, "values"):
                    variable._initialize(variable.value.numpy())
