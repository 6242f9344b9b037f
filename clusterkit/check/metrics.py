"""A rule about metrics of the program's own, whose values the replicas add up."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from clusterkit.check.case import Case, Hit
from clusterkit.check.replicas import replicas_of
from clusterkit.check.source import argument

_METRICS = {"keras.metrics.Metric", "keras.metrics.Mean"}


def assigned_metric(case: Case) -> Iterator[Hit]:
    """Find metrics that set their variables to a value, which the strategy adds up over all replicas."""
    replicas = replicas_of(case)
    if replicas is None:
        return
    for source in case.sources:
        classes = [node for node in source.nodes if isinstance(node, ast.ClassDef)]
        for update in (
            method
            for each in classes
            if not _METRICS.isdisjoint(map(source.dotted, each.bases))
            for method in each.body
            if isinstance(method, ast.FunctionDef) and method.name == "update_state"
        ):
            for call in ast.walk(update):
                match call:
                    case ast.Call(func=ast.Attribute(value=ast.Attribute() as variable, attr="assign")):
                        value = argument(call, 0, "value")
                        name = ast.unparse(variable)
                        if value is not None and name not in ast.unparse(value):
                            what = (
                                f"The strategy adds up {name} over the {replicas.noun}s, and each sets it to a value "
                                f"of its own: with {replicas.text}, the metric is {replicas.times} times too large."
                            )
                            advice = (
                                f"Add to it with {name}.assign_add(…), count the rows in the same way, and divide in "
                                "result()."
                            )
                            yield Hit(source.location(call), what, advice)
