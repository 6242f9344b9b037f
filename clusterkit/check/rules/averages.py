"""Rules about averages over one worker's rows where an average over the whole batch is needed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from clusterkit.check.case import MULTI_WORKER, OUR_STRATEGY, Case, Hit
from clusterkit.check.rules.replicas import (
    MIRRORED,
    function_of,
    has_whole_steps,
    is_model,
    reached,
    replica_functions,
    replicas_of,
)
from clusterkit.check.source import Source, argument

_SCALE = "Scale the regularization losses: add tf.nn.scale_regularization_loss(sum(model.losses)) to the loss."
_MEANS = {"tensorflow.reduce_mean", "tensorflow.math.reduce_mean", "keras.ops.mean"}
_SUMS = {"tensorflow.reduce_sum", "tensorflow.math.reduce_sum", "keras.ops.sum"}
# Methods whose first argument is differentiated, and functions that add up their arguments.
_GRADIENTS = {"gradient", "jacobian", "minimize", "compute_gradients", "scale_loss"}
_ADDERS = {"add", "add_n", "sum", "stack"}
_FULL = re.compile(r"repeat|divide_no_nan")  # names in code that avoids empty shares or divisions by 0
_LOSS = re.compile(r"keras\.losses\.[A-Z]\w+")
_SCALES = re.compile(
    r"(?i)compute_average_loss|num_replicas|global_?batch|num_workers|world_size|scale_loss|all_reduce"
)
_ROWS = re.compile(r"(?i)len\(|sample|row|size|num_|count|\bn\b")
_PER_REPLICA = re.compile(r"(?i)(?:batch\w*)?per_?(?:replica|worker|gpu)(?:\w*batch\w*)?|local_batch\w*")


def loss_per_replica(case: Case) -> Iterator[Hit]:
    """Find training steps in which each replica averages over its own rows only, or adds the whole regularization."""
    replicas = replicas_of(case)
    if replicas is None or any(_is_scaled(node) for source in case.sources for node in source.nodes):
        return
    for source in case.sources:
        for step in dict.fromkeys(replica_functions(case, source)):
            text = "\n".join(map(ast.unparse, reached(source, step)))
            mean = None if _SCALES.search(text) else _mean_under_tape(source, step, case.keras)
            added = None if mean or "scale_regularization" in text else _regularization(source, step)
            if (place := mean or added) is not None:
                one = replicas.noun
                parts = (
                    f"Each {one} averages its loss over its own rows"
                    if mean
                    else f"Each {one} adds the whole regularization to its loss"
                )
                what = (
                    f"{parts}, and the strategy adds up the gradients of the {one}s, so with {replicas.text} the "
                    f"gradients are {replicas.times} times too large."
                )
                yield Hit(source.location(place), what, _advice(source, step) if mean else _SCALE)


def _advice(source: Source, step: ast.FunctionDef) -> str:
    if is_model(source, next(source.enclosing(step), None)):
        return "Divide the mean by self.distribute_strategy.num_replicas_in_sync, or use self.compute_loss."
    return "Compute a loss for each row, and use tf.nn.compute_average_loss(losses, global_batch_size=...)."


def batch_per_replica(case: Case) -> Iterator[Hit]:
    """Find datasets with the batch size of one replica, although the strategy divides each batch among replicas."""
    replicas = replicas_of(case)
    if replicas is None or case.names({"tensorflow.distribute.InputContext"}):
        return
    for source in case.sources:
        if any(getattr(node, "attr", "").endswith("_from_function") for node in source.nodes):
            continue  # for a function that creates the dataset of one worker, the batch size of one worker is right
        for _, call in source.calls():
            method = getattr(call.func, "attr", "")
            size = argument(call, 0 if method == "batch" else 9, "batch_size") if method in ("batch", "fit") else None
            name = size.id if isinstance(size, ast.Name) else ""
            if _PER_REPLICA.fullmatch(name) and not isinstance(source.value(size), ast.BinOp | ast.AugAssign):
                one = replicas.noun
                what = f"The strategy divides each batch among the {one}s, so each {one} gets fewer than {name} rows."
                advice = f"Use the global batch size: {name} * strategy.num_replicas_in_sync."
                yield Hit(source.location(call), what, advice)


def division_by_no_rows(case: Case) -> Iterator[Hit]:
    """Find divisions by a sum over a replica's rows, if the last batch may be too small to give each replica a row."""
    mirrored = case.names({MULTI_WORKER, OUR_STRATEGY, MIRRORED})
    batches = any(getattr(call.func, "attr", "") == "batch" for source in case.sources for _, call in source.calls())
    if not mirrored or not batches or any(source.mentions(_FULL) or _drops(source) for source in case.sources):
        return
    for source in case.sources:
        functions = _functions_of_parts(case, source)
        for node in dict.fromkeys(node for function in functions for node in ast.walk(function)):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is_sum(source, node.right):
                what = (
                    "This divides by a sum over the rows of one replica. If the last batch has fewer rows than there "
                    "are replicas, a replica without rows computes 0 / 0, and all replicas get NaN."
                )
                advice = (
                    "Pass drop_remainder=True to batch(), call repeat() before batch(), or divide with "
                    "tf.math.divide_no_nan."
                )
                yield Hit(source.location(node), what, advice)


def _functions_of_parts(case: Case, source: Source) -> list[ast.FunctionDef]:
    """Return the file's functions that may be called with the rows of one replica."""
    if not has_whole_steps(case):
        return [node for node in source.nodes if isinstance(node, ast.FunctionDef)]
    steps = replica_functions(case, source)
    return [function for step in steps for function in reached(source, step)]


def _is_scaled(node: ast.AST) -> bool:
    """Return whether a value other than a row count is divided by the number of replicas or the global batch size."""
    match node:
        case ast.BinOp(left=left, op=ast.Div(), right=by) | ast.AugAssign(target=left, op=ast.Div(), value=by):
            return _SCALES.search(ast.unparse(by)) is not None and not _ROWS.search(ast.unparse(left))
    return False


def _mean_under_tape(source: Source, step: ast.FunctionDef, keras: int) -> ast.Call | None:
    """Return a call that averages over rows, such as a mean or a reduced loss, and whose gradient the step computes.

    Keras 3 losses are ignored, since they divide their mean by the number of replicas.
    """
    for each in _losses(source, step):
        node: ast.AST | None = each
        function = function_of(source, node.func) if isinstance(node, ast.Call) else None
        if function is not None:
            returned = [inner.value for inner in ast.walk(function) if isinstance(inner, ast.Return)]
            node = source.value(returned[0]) if len(returned) == 1 else None
        if isinstance(node, ast.Call) and (_is_mean(source, node) or (keras == 2 and _is_reduced(source, node))):
            return node
    return None


def _losses(source: Source, step: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the calls whose values are added up to what a step differentiates.

    Other values that are computed under a tape, such as an accuracy or the mean with which data is centred, are left
    out: what their average is over changes no gradient, or is not the loss.
    """
    inside = list(ast.walk(step))
    todo = [call.args[0] for call in inside if isinstance(call, ast.Call) and call.args and _name(call) in _GRADIENTS]
    if not todo or not any(True for _ in _under_tape(step)):
        yield from _under_tape(step)  # something else differentiates what is computed here
        return
    seen = set[ast.AST]()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        match node:
            case ast.Name(id=name):
                todo += _values_in(inside, name)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
                todo += [left, right]
            case ast.UnaryOp(operand=operand):
                todo.append(operand)
            case ast.IfExp(body=first, orelse=second):
                todo += [first, second]
            case ast.Call(args=[*args]) if _name(node) in _ADDERS:
                todo += args
                todo += [part for arg in args if isinstance(arg, ast.List | ast.Tuple) for part in arg.elts]
            case ast.Call(func=func):
                yield node
                # A method of a loss, or a function such as `get_scaled_loss(loss)`, passes its argument on.
                if function_of(source, func) is None and _name(node).endswith("scaled_loss"):
                    todo += node.args


def _values_in(nodes: Iterable[ast.AST], name: str) -> Iterator[ast.expr]:
    """Yield what these nodes assign or add to a name."""
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value) if any(_is_named(each, name) for each in targets):
                yield value
            case ast.AnnAssign(target=target, value=ast.expr() as value) if _is_named(target, name):
                yield value
            case ast.AugAssign(target=target, value=value) if _is_named(target, name):
                yield value
            case ast.NamedExpr(target=target, value=value) if target.id == name:
                yield value


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _regularization(source: Source, step: ast.FunctionDef) -> ast.AST | None:
    """Return the sum of a model's regularization losses if the step adds this sum to the loss; otherwise None."""
    for function in reached(source, step) if any(True for _ in _under_tape(step)) else ():
        for node in ast.walk(function):
            value = argument(node, 0, "inputs") if isinstance(node, ast.Call) else None
            if isinstance(value, ast.Attribute) and value.attr == "losses" and _name(node) in ("sum", "add_n"):
                statement = next(each for each in source.enclosing(node) if isinstance(each, ast.stmt))
                return None if _SCALES.search(ast.unparse(statement)) else node
    return None


def _under_tape(step: ast.FunctionDef) -> Iterator[ast.AST]:
    for block in ast.walk(step):
        if isinstance(block, ast.With) and "GradientTape" in ast.dump(block.items[0].context_expr):
            yield from ast.walk(block)


def _is_mean(source: Source, call: ast.Call) -> bool:
    """Return whether the call computes a mean over all rows."""
    return source.dotted(call.func) in _MEANS and argument(call, 1, "axis") is None


def _name(node: ast.AST) -> str:
    func = getattr(node, "func", None)
    return str(getattr(func, "attr", getattr(func, "id", "")))


def _is_reduced(source: Source, call: ast.Call) -> bool:
    """Return whether the called object is a Keras loss that the file creates without the argument `reduction`."""
    loss = source.value(call.func)
    if not isinstance(loss, ast.Call) or not _LOSS.fullmatch(source.dotted(loss.func)):
        return False
    return not any(keyword.arg in ("reduction", None) for keyword in loss.keywords)


def _drops(source: Source) -> bool:
    """Return whether a dataset in the file drops its last batch if that batch is not full."""
    return any(keyword.arg == "drop_remainder" for _, call in source.calls() for keyword in call.keywords)


def _is_sum(source: Source, node: ast.expr) -> bool:
    """Return whether the value is a sum over rows, perhaps after a conversion to another type."""
    if isinstance(node, ast.Call) and source.dotted(node.func) == "tensorflow.cast" and node.args:
        node = node.args[0]
    return isinstance(node, ast.Call) and source.dotted(node.func) in _SUMS
