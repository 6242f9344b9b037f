"""Rules about losses that are divided more than once, and about results from only one worker."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from clusterkit.check.case import Case, Hit
from clusterkit.check.rules.replicas import (
    REPLICAS,
    function_of,
    is_gang,
    is_global_batch,
    replica_functions,
    replicas_of,
)
from clusterkit.check.source import Source, argument

_SUMS = {"tensorflow.reduce_sum", "tensorflow.math.reduce_sum"}
_COLLECTS = {"append", "extend", "concat", "concatenate", "stack", "vstack"}
_GATHERS = re.compile(r"gather|all_reduce|task_i|rank|TF_CONFIG")  # words in code that combines all workers' results
# Names of values that may be multiplied by the number of replicas: batch sizes and learning rates.
_SCALED = re.compile(r"(?i)batch|(?<!st)rate|\blr\b")


def mean_of_parts(case: Case) -> Iterator[Hit]:
    """Find losses that each replica divides by the global batch size, and that are then averaged over the replicas."""
    replicas = replicas_of(case)
    if replicas is None:
        return
    for source in case.sources:
        if any(_multiplies(node) for node in source.nodes):
            continue  # the program may correct the mean
        smaller = f"so with {replicas.text} the result is {replicas.times} times too small."
        for _, call in source.calls():
            value, axis = argument(call, 1, "value"), argument(call, 2, "axis")
            is_scalar = isinstance(axis, ast.Constant) and axis.value is None
            if is_scalar and _is_mean(source, call) and _is_part(source, source.value(value)):
                what = "The loss is divided by the global batch size, and MEAN divides by the number of replicas, "
                advice = "Add up the losses of the replicas with tf.distribute.ReduceOp.SUM."
                yield Hit(source.location(call), what + smaller, advice)
        for step in dict.fromkeys(replica_functions(case, source)):
            for metric, call in _updates(source, step):
                if _is_divided(source, source.value(argument(call, 0, "values"))):
                    loss = ast.unparse(call.args[0]) if call.args else "loss"
                    what = f"The loss is divided by the global batch size, and {metric} averages over the replicas, "
                    advice = f"Update {metric} with {loss} * strategy.num_replicas_in_sync."
                    yield Hit(source.location(call), what + smaller, advice)


def results_of_one_worker(case: Case) -> Iterator[Hit]:
    """Find code that collects the results of the replicas in one worker, but not in the other workers."""
    gathers = any(source.mentions(_GATHERS) for source in case.sources)
    for source in case.sources if is_gang(case) and not gathers else ():
        for _, call in source.calls():
            if getattr(call.func, "attr", "") == "experimental_local_results":
                around = {getattr(getattr(each, "func", None), "attr", "") for each in source.enclosing(call)}
                if not around.isdisjoint(_COLLECTS):
                    what = f"Each of the tasks ({case.tasks}) collects only the results of its own rows here."
                    advice = "Collect the results of all workers with strategy.gather(results, axis=0)."
                    yield Hit(source.location(call), what, advice)


def loss_divided_twice(case: Case) -> Iterator[Hit]:
    """Find losses for `fit` that the program divides by the global batch size.

    `fit` of Keras 2 divides such a loss again, by the number of replicas. Keras 3 does not divide a scalar loss.
    """
    for source in case.sources if case.keras == 2 and replicas_of(case) is not None else ():
        for call in source.model_calls("compile"):
            loss = _loss_function(source, argument(call, 1, "loss"))
            if loss is not None and _divides(source, loss):
                what = (
                    "This loss is divided by the global batch size, and fit of Keras 2 divides the loss again, by the "
                    "number of replicas, so the loss and its gradients are too small by this factor."
                )
                advice = "Return a loss for each row, and let fit average the losses."
                yield Hit(source.location(loss), what, advice)


def _loss_function(source: Source, loss: ast.expr | None) -> ast.FunctionDef | None:
    """Return the function in the file that computes a loss: a plain function, or the method `call` of a Loss class."""
    made = source.value(loss)
    if isinstance(made, ast.FunctionDef):
        return made
    kind = source.value(made.func) if isinstance(made, ast.Call) else None
    if not isinstance(kind, ast.ClassDef) or "keras.losses.Loss" not in map(source.dotted, kind.bases):
        return None
    if any("reduction" in ast.dump(node) for node in (kind, made) if node is not None):
        return None  # with reduction='sum', fit does not divide
    return next((node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name == "call"), None)


def _updates(source: Source, step: ast.FunctionDef) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls in a step that update a Mean metric, each with the metric's name."""
    for call in ast.walk(step):
        match call:
            case ast.Call(func=ast.Attribute(value=metric, attr="update_state")) | ast.Call(func=metric):
                name = getattr(metric, "attr", getattr(metric, "id", ""))
                made = [
                    node.value
                    for node in source.nodes
                    if isinstance(node, ast.Assign)
                    and name in (getattr(node.targets[0], "attr", ""), getattr(node.targets[0], "id", ""))
                ]
                if name and made and all(source.constructor(each) == "keras.metrics.Mean" for each in made):
                    yield name, call


def _multiplies(node: ast.AST) -> bool:
    """Return whether a value other than a batch size or a learning rate is multiplied by the number of replicas."""
    if not isinstance(node, ast.BinOp | ast.AugAssign) or not isinstance(node.op, ast.Mult):
        return False
    if any(isinstance(factor, ast.Constant) for factor in ast.iter_child_nodes(node)):
        return False  # probably a batch size, as in `8 * strategy.num_replicas_in_sync`
    text = ast.unparse(node)
    return bool(REPLICAS.search(text)) and not _SCALED.search(text)


def _is_mean(source: Source, call: ast.Call) -> bool:
    how = argument(call, 0, "reduce_op") if getattr(call.func, "attr", "") == "reduce" else None
    is_text = isinstance(how, ast.Constant) and isinstance(how.value, str) and how.value.upper() == "MEAN"
    return is_text or source.dotted(how) == "tensorflow.distribute.ReduceOp.MEAN"


def _is_part(source: Source, run: ast.AST | None) -> bool:
    """Return whether the value is the result of a step that divides its loss by the global batch size."""
    step = argument(run, 0, "fn") if isinstance(run, ast.Call) and getattr(run.func, "attr", "") == "run" else None
    replica_step = function_of(source, step)
    return replica_step is not None and _divides(source, replica_step)


def _divides(source: Source, function: ast.FunctionDef, depth: int = 3) -> bool:
    """Return whether the function returns its loss divided by the global batch size."""
    returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    return len(returned) == 1 and _is_divided(source, source.value(returned[0]), depth)


def _is_divided(source: Source, value: ast.AST | None, depth: int = 3) -> bool:
    """Return whether the value is a loss that is divided by the global batch size."""
    match value:
        case ast.Call(func=func) if source.dotted(func) == "tensorflow.nn.compute_average_loss":
            return True
        case ast.Call(func=func) if depth and (inner := function_of(source, func)) is not None:
            return _divides(source, inner, depth - 1)
        case ast.BinOp(left=total, op=ast.Div(), right=size) | ast.AugAssign(target=total, op=ast.Div(), value=size):
            return source.constructor(total) in _SUMS and is_global_batch(source, size)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return any(
                source.constructor(total) in _SUMS
                and isinstance(share.op, ast.Div)
                and is_global_batch(source, share.right)
                for total, share in ((left, right), (right, left))
                if isinstance(share, ast.BinOp) and isinstance(share.left, ast.Constant)
            )
    return False
