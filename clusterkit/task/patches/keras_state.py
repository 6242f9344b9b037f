"""Finds the variables of Keras 3 layers that each worker changes after its own rows.

Loaded by path: standard library only. A variable that a layer changes in its `call` (a running mean, a sum of what was
seen) has another value in each worker then, and the first worker's is saved.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

APART = (
    "{} changes its variable {!r} by this worker's rows alone: the workers' values differ, and the first worker's is "
    "saved. Add up or average over tf.distribute.get_replica_context().all_reduce first, or give add_weight "
    "aggregation='mean' or 'sum'."
)
ASSIGNMENTS = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


def notices(step: Any, model: Any) -> Iterator[str]:
    """Yield a sentence for each variable of a model that the step, a graph, changes by the replica's own rows."""
    if step.is_eager:
        return
    graph = step.share.graph
    found = {id(inner): outer for outer, inner in graph.captures}
    changed = {
        id(found.get(id(operation.inputs[0]), operation.inputs[0]))
        for operation in graph.get_operations()
        if operation.type in ASSIGNMENTS and step.is_of_rows(operation.inputs[1])
    }
    metrics = {id(variable) for metric in model.metrics for variable in metric.variables}
    for layer in model._flatten_layers():
        for variable in getattr(layer, "_non_trainable_variables", ()):
            own = getattr(variable.value, "_get", lambda value=variable.value: value)()
            if id(variable) not in metrics and variable.aggregation == "none" and id(own.handle) in changed:
                yield APART.format(layer.path or type(layer).__name__, variable.name)
