"""Rules about the steps of custom training loops: about their batches, and about the reduction of their losses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from clusterkit.check.averages import is_gang
from clusterkit.check.case import Case, Hit
from clusterkit.check.source import DISTRIBUTES, Source, argument

_MIRRORED = "tensorflow.distribute.MirroredStrategy"
_SUMS = {"tensorflow.reduce_sum", "tensorflow.math.reduce_sum"}
_GLOBAL_BATCH = re.compile(r"(?i)global_?batch(?:_?size)?")
_REPLICAS = re.compile(r"num_replicas|n_replicas|num_workers|world_size")
# Names of values that may be multiplied by the number of replicas: batch sizes and learning rates.
_SCALED = re.compile(r"(?i)batch|(?<!st)rate|\blr\b")
_TAKERS = {"fit", DISTRIBUTES}  # methods in which a strategy divides a dataset
_DIVIDES = re.compile(r"(?i)auto_?shard|_from_function|input_pipeline|num_input")  # in code that divides by itself
_Function = ast.FunctionDef | ast.Module


def mean_of_parts(case: Case) -> Iterator[Hit]:
    """Find reductions by MEAN if each replica has already divided its loss by the global batch size."""
    for source in case.sources if is_gang(case) else ():
        if any(_multiplies(node) for node in source.nodes):
            continue  # the program may correct the mean
        for function, call in _innermost(source):
            value, axis = argument(call, 1, "value"), argument(call, 2, "axis")
            is_scalar = isinstance(axis, ast.Constant) and axis.value is None
            if _is_mean(source, call) and is_scalar and _is_part(source, function, value):
                tasks = len(case.job.training)
                what = (
                    "Each replica has divided its loss by the global batch size, and MEAN divides once more: with "
                    f"{case.tasks}, the result is {tasks} times too small."
                )
                yield Hit(source.location(call), what, "Add up the losses of the replicas: tf.distribute.ReduceOp.SUM.")


def loss_divided_twice(case: Case) -> Iterator[Hit]:
    """Find losses for `fit` that divide by the global batch size: Keras 2 divides them by the number of replicas.

    Keras 3 leaves a loss without rows as it is.
    """
    if case.keras != 2 or not (is_gang(case) or any(_has_devices(source) for source in case.sources)):
        return
    for source in case.sources:
        for call in source.model_calls("compile"):
            loss = _loss_function(source, argument(call, 1, "loss"))
            if loss is not None and (_divides(source, loss) or _is_divided(source, _last_value(loss))):
                what = (
                    "This loss is divided by the global batch size, and fit of Keras 2 divides it once more, by the "
                    "number of replicas: the loss and its gradients are too small by that number."
                )
                advice = "Return a loss per row, which Keras averages: only loops without fit divide by the batch size."
                yield Hit(source.location(loss), what, advice)


def _has_devices(source: Source) -> bool:
    """Return whether the file gives a MirroredStrategy its devices, and not a single one."""
    given = [call.args[0] for name, call in source.calls() if name == _MIRRORED and call.args]
    return any(not isinstance(devices, ast.List) or len(devices.elts) > 1 for devices in given)


def _loss_function(source: Source, loss: ast.expr | None) -> ast.FunctionDef | None:
    """Return the file's function that computes the loss: the function itself, or the `call` of a subclass of Loss."""
    made = source.value(loss.id) if isinstance(loss, ast.Name) else loss
    if isinstance(made, ast.FunctionDef):
        return made
    kind = source.value(made.func.id) if isinstance(made, ast.Call) and isinstance(made.func, ast.Name) else None
    if not isinstance(kind, ast.ClassDef) or "keras.losses.Loss" not in map(source.dotted, kind.bases):
        return None
    if any("reduction" in ast.dump(node) for node in (kind, made) if node is not None):
        return None  # with reduction='sum', fit does not divide
    return next((node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name == "call"), None)


def undistributed_batches(case: Case) -> Iterator[Hit]:
    """Find loops that pass the batches of the original dataset, not of the distributed dataset, to the replicas."""
    for source in case.sources if is_gang(case) else ():
        unused = {dataset: name for name, dataset in _distributed(source) if not _is_used(case, name)}
        if not unused or any(getattr(node, "attr", "") == "shard" for node in source.nodes):
            continue
        for loop in source.nodes:
            dataset = loop.iter.id if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Name) else ""
            if isinstance(loop, ast.For) and dataset in unused and _runs(source, loop):
                what = f"The loop takes its batches from {dataset}: each worker trains on the whole of each batch."
                yield Hit(source.location(loop), what, f"Loop over {unused[dataset]}, which gives each its share.")


def shard_twice(case: Case) -> Iterator[Hit]:
    """Find datasets that the program divides among the workers, and that the strategy divides once more."""
    if not is_gang(case) or any(source.mentions(_DIVIDES) for source in case.sources):
        return
    for source in case.sources:
        taken = [argument(call, 0, "x") for _, call in source.calls() if getattr(call.func, "attr", "") in _TAKERS]
        for shard in dict.fromkeys(found for rows in taken if (found := _shard_of(source, rows, set())) is not None):
            if case.applies(source, shard):
                what = (
                    f"The dataset is divided here, and the strategy divides it once more: each of the tasks "
                    f"({case.tasks}) trains on a part of its part, and the rest of the rows is lost."
                )
                advice = "Leave shard() out, or set options.experimental_distribute.auto_shard_policy to OFF."
                yield Hit(source.location(shard), what, advice)


def _shard_of(source: Source, rows: ast.AST | None, seen: set[str]) -> ast.Call | None:
    """Return the call of `shard` from which a dataset is made, through methods of datasets and names bound once."""
    match rows:
        case ast.Name(id=name) if name not in seen:
            return _shard_of(source, source.value(name), seen | {name})
        case ast.Call(func=ast.Attribute(attr="shard"), args=[_, _]):
            return rows
        case ast.Call(func=ast.Attribute(value=owner)):
            return _shard_of(source, owner, seen)
    return None


def _multiplies(node: ast.AST) -> bool:
    """Return whether a value other than a batch size or a learning rate is multiplied by the number of replicas."""
    if not isinstance(node, ast.BinOp | ast.AugAssign) or not isinstance(node.op, ast.Mult):
        return False
    if any(isinstance(factor, ast.Constant) for factor in ast.iter_child_nodes(node)):
        return False  # probably also a batch size, as in `8 * strategy.num_replicas_in_sync`
    text = ast.unparse(node)
    return bool(_REPLICAS.search(text)) and not _SCALED.search(text)


def _innermost(source: Source) -> Iterator[tuple[_Function, ast.Call]]:
    """Yield the calls of `reduce`, each with the innermost function that contains it, or the module."""
    around = dict[ast.Call, _Function]()
    for function in source.nodes:  # outer functions come first
        if isinstance(function, _Function):
            calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
            around |= {call: function for call in calls if getattr(call.func, "attr", "") == "reduce"}
    yield from ((function, call) for call, function in around.items())


def _is_mean(source: Source, call: ast.Call) -> bool:
    how = argument(call, 0, "reduce_op")
    is_text = isinstance(how, ast.Constant) and isinstance(how.value, str) and how.value.upper() == "MEAN"
    return is_text or source.dotted(how) == "tensorflow.distribute.ReduceOp.MEAN"


def _is_part(source: Source, function: _Function, value: ast.expr | None) -> bool:
    """Return whether the value is the result of a step that divides its loss by the global batch size."""
    run = _resolved(source, function, value)
    step = argument(run, 0, "fn") if isinstance(run, ast.Call) and getattr(run.func, "attr", "") == "run" else None
    replica_step = source.value(step.id) if isinstance(step, ast.Name) else None
    return isinstance(replica_step, ast.FunctionDef) and _divides(source, replica_step)


def _divides(source: Source, function: ast.FunctionDef, depth: int = 3) -> bool:
    """Return whether the function returns its loss divided by the global batch size."""
    returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    value = _resolved(source, function, returned[0]) if len(returned) == 1 else None
    return _is_divided(source, value, depth)


def _is_divided(source: Source, value: ast.AST | None, depth: int = 3) -> bool:
    """Return whether the value is a loss that is divided by the global batch size."""
    match value:
        case ast.Call(func=func) if source.dotted(func) == "tensorflow.nn.compute_average_loss":
            return True
        case ast.Call(func=ast.Name(id=name)) if depth:
            inner = source.value(name)
            return isinstance(inner, ast.FunctionDef) and _divides(source, inner, depth - 1)
        case ast.BinOp(left=total, op=ast.Div(), right=size):
            return source.constructor(total) in _SUMS and _is_global_batch(source, size)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return any(
                source.constructor(total) in _SUMS
                and isinstance(share.op, ast.Div)
                and _is_global_batch(source, share.right)
                for total, share in ((left, right), (right, left))
                if isinstance(share, ast.BinOp) and isinstance(share.left, ast.Constant)
            )
    return False


def _last_value(function: ast.FunctionDef) -> ast.expr | None:
    """Return what the function returns if its last two lines assign a value to a name and return that name."""
    match function.body[-2:]:
        case [ast.Assign(targets=[ast.Name(id=name)], value=value), ast.Return(value=ast.Name(id=returned))]:
            alone = sum(isinstance(node, ast.Return) for node in ast.walk(function)) == 1
            return value if name == returned and alone else None
    return None


def _is_global_batch(source: Source, node: ast.AST) -> bool:
    """Return whether the node has the name of a global batch size, or that of a product with the number of replicas."""
    name = getattr(node, "attr", getattr(node, "id", ""))
    values = [value for value in source.values(name) if value is not None]
    products = [value for value in values if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult)]
    grows = bool(values) and len(products) == len(values)
    return _GLOBAL_BATCH.fullmatch(name) is not None or (
        grows and all(_REPLICAS.search(ast.unparse(product)) for product in products)
    )


def _resolved(source: Source, function: _Function, node: ast.AST | None) -> ast.AST | None:
    """Return the value of a name that the function or, if not, the file binds once. Return other nodes unchanged."""
    if not isinstance(node, ast.Name):
        return node
    inside = [*ast.walk(function)]
    bound = [each for each in inside if _binds(each, node.id)]
    plain = [
        each.value
        for each in inside
        if isinstance(each, ast.Assign) and len(each.targets) == 1 and each.targets[0] in bound
    ]
    if not bound:
        return source.value(node.id)
    return plain[0] if len(bound) == len(plain) == 1 else None


def _binds(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Name(id=bound, ctx=ast.Store()) | ast.arg(arg=bound):
            return bound == name
    return False


def _distributed(source: Source) -> Iterator[tuple[str, str]]:
    """Yield (distributed, original): the names of a distributed dataset and of the dataset that is distributed."""
    made = [node for node in source.nodes if isinstance(node, ast.Assign) and DISTRIBUTES in ast.dump(node.value)]
    results = {
        each.id for node in made for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)
    }
    for node in made:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Attribute(attr=attr), args=[ast.Name(id=dataset), *_]),
            ) if attr == DISTRIBUTES and dataset not in results:
                yield name, dataset


def _is_used(case: Case, name: str) -> bool:
    """Return whether any file reads or imports the name."""
    return any(
        (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load))
        or (
            isinstance(node, ast.Attribute | ast.alias)
            and name in (getattr(node, "attr", ""), getattr(node, "name", ""))
        )
        or (isinstance(node, ast.Constant) and node.value == name)
        for source in case.sources
        for node in source.nodes
    )


def _runs(source: Source, loop: ast.For) -> bool:
    """Return whether the loop passes its batches to `strategy.run`, directly or in a function of the file."""
    batch = _names(loop.target)
    for call in (node for statement in loop.body for node in ast.walk(statement) if isinstance(node, ast.Call)):
        if _runs_with(call, batch):
            return True
        function = source.value(call.func.id) if isinstance(call.func, ast.Name) else None
        if isinstance(function, ast.FunctionDef):
            pairs = zip(function.args.args, call.args, strict=False)
            names = {parameter.arg for parameter, value in pairs if isinstance(value, ast.Name) and value.id in batch}
            if any(isinstance(node, ast.Call) and _runs_with(node, names) for node in ast.walk(function)):
                return True
    return False


def _runs_with(call: ast.Call, names: set[str]) -> bool:
    args = argument(call, 1, "args")
    is_run = getattr(call.func, "attr", "") == "run" and isinstance(args, ast.Tuple | ast.List)
    return is_run and args is not None and not names.isdisjoint(_names(args))


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
