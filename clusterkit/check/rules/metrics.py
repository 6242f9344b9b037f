"""Rules about metrics whose values are wrong with several replicas."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from clusterkit.check.case import Case, Hit
from clusterkit.check.rules.replicas import has_whole_steps, is_gang, reached, replica_functions, replicas_of
from clusterkit.check.source import argument

_METRICS = {"keras.metrics.Metric", "keras.metrics.Mean"}


def metric_of_one_worker(case: Case) -> Iterator[Hit]:
    """Find metrics that are created outside the strategy's scope, but updated in the steps of several workers."""
    for source in case.sources if is_gang(case) else ():
        updated = {
            ast.unparse(call.func.value)
            for step in replica_functions(case, source)
            for function in reached(source, step)
            for call in ast.walk(function)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "update_state"
        }
        for node in source.nodes:
            match node:
                case ast.Assign(targets=[target], value=ast.Call(func=func)) if ast.unparse(target) in updated:
                    inside = any(isinstance(each, ast.With | ast.FunctionDef) for each in source.enclosing(node))
                    if source.dotted(func).startswith("keras.metrics.") and not inside:
                        what = (
                            f"The metric is created outside the strategy's scope, so each of the tasks ({case.tasks}) "
                            "counts only the rows of its own share."
                        )
                        yield Hit(source.location(node), what, "Create the metric inside `with strategy.scope():`.")


def assigned_metric(case: Case) -> Iterator[Hit]:
    """Find metrics that assign values to their variables, although the strategy sums variables over all replicas."""
    replicas = replicas_of(case)
    if replicas is None:
        return
    for source in case.sources:
        if has_whole_steps(case) and not any(replica_functions(case, source)):
            continue  # fit updates such a metric with the whole batch, once
        classes = [node for node in source.nodes if isinstance(node, ast.ClassDef)]
        for update in (
            method
            for each in classes
            if not _METRICS.isdisjoint(map(source.dotted, each.bases))
            if not _aggregates(each)
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
                                f"Each {replicas.noun} assigns its own value to {name}, and the strategy adds up these "
                                f"values, so with {replicas.text} the metric is {replicas.times} times too large."
                            )
                            advice = (
                                f"Add to {name} with {name}.assign_add(…), count the rows in the same way, and in "
                                "result() divide by the count."
                            )
                            yield Hit(source.location(call), what, advice)


def _aggregates(metric: ast.ClassDef) -> bool:
    """Return whether a class says how the strategy combines the replicas' values of its variables."""
    calls = (node for node in ast.walk(metric) if isinstance(node, ast.Call))
    return any(keyword.arg == "aggregation" for call in calls for keyword in call.keywords)
