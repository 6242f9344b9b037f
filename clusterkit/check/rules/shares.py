"""Rules about data for several replicas: how batches and rows are divided, and how many steps an epoch has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clusterkit.check.case import Case, Hit
from clusterkit.check.rules.replicas import REPLICAS, function_of, is_gang, is_global_batch, reached, replicas_of
from clusterkit.check.source import DISTRIBUTES, Source, argument

_TAKERS = {"fit", DISTRIBUTES}  # methods in which a strategy divides a dataset
_DISTRIBUTES = re.compile(r"experimental_(?:distribute|make_numpy)|_from_function|distribute_values")
_DIVIDES = re.compile(r"(?i)auto_?shard|_from_function|input_pipeline|num_input")  # words in code that divides the data
# Words in code that selects one task's part of the rows, in a program or in a function that creates a dataset.
_PART = re.compile(r"(?i)^(?:shard|skip)$|input_pipeline|num_input|task_i|worker_i|rank")
_COUNTS = re.compile(r"(?i)rows|examples|samples|images|records|(?:train|data(?:set)?)_(?:size|len)|num_train")
_SPLITS = {"numpy.array_split", "numpy.split", "tensorflow.split"}
_SHARDS = re.compile(r"(?i)shard|input_pipeline|num_input|task_i|rank|skip\(")
_ROWS = re.compile(r"\.from_tensor_slices\(|RecordDataset\(|TextLineDataset\(|list_files\(|tfds\.load\(")


def undistributed_batches(case: Case) -> Iterator[Hit]:
    """Find loops that pass a dataset's batches to the replicas, although the dataset is not distributed."""
    replicas = replicas_of(case)
    if replicas is None:
        return
    for source in case.sources:
        made = [*_distributed(source)]
        unused = {dataset: name for name, dataset in made if not _is_used(case, name)}
        divides = any(getattr(each, "attr", "") == "shard" for each in source.nodes) or source.mentions(_DIVIDES)
        alone = not made and not source.mentions(_DISTRIBUTES)
        for loop in (node for node in source.nodes if isinstance(node, ast.For) and not divides):
            looped = _looped(loop.iter)
            name = looped.id if looped is not None else ""
            if (name in unused or (alone and _is_dataset(source, looped))) and _runs(source, loop):
                shares = unused.get(name, f"strategy.experimental_distribute_dataset({name})")
                one = replicas.noun
                what = f"The loop does not distribute the batches of {name}, so each {one} trains on whole batches."
                yield Hit(source.location(loop), what, f"Loop over {shares}, which gives each {one} its share.")


def shard_twice(case: Case) -> Iterator[Hit]:
    """Find datasets that the program divides among the workers, and that the strategy then divides again."""
    if not is_gang(case) or any(source.mentions(_DIVIDES) for source in case.sources):
        return
    for source in case.sources:
        taken = [argument(call, 0, "x") for _, call in source.calls() if getattr(call.func, "attr", "") in _TAKERS]
        made = [next(filter(_is_shard, source.chain(rows)), None) for rows in taken]
        for shard in dict.fromkeys(made):
            if shard is not None and case.applies(source, shard):
                what = (
                    f"The dataset is divided here, and the strategy divides it again, so each of the tasks "
                    f"({case.tasks}) trains on only a part of its share, and the other rows are lost."
                )
                advice = "Remove shard(), or set options.experimental_distribute.auto_shard_policy to OFF."
                yield Hit(source.location(shard), what, advice)


def steps_of_one_replica(case: Case) -> Iterator[Hit]:
    """Find step counts for `fit` that are computed with the batch size per replica, although batches are global."""
    replicas = replicas_of(case)
    if replicas is None:
        return
    for source in case.sources:
        sizes = _sizes_of_one(source)
        rows = _row_counts(source) if sizes else set()
        for _, call in source.calls() if sizes else ():
            steps = argument(call, 99, "steps_per_epoch") if getattr(call.func, "attr", "") == "fit" else None
            size = None if steps is None else _divisor(source, steps, sizes, rows)
            if size is not None:
                what = (
                    f"This is the number of steps for one {replicas.noun}. With {replicas.text}, a batch has "
                    f"{replicas.times} times as many rows, so an epoch reads the data {replicas.times} times."
                )
                advice = f"Divide the number of rows by the global batch size: steps_per_epoch=rows // {size.name}."
                yield Hit(source.location(call), what, advice)


def undivided_function(case: Case) -> Iterator[Hit]:
    """Find datasets whose rows neither the program nor the strategy divides among the workers.

    The strategy does not divide datasets that a function creates for each worker, or datasets without auto-sharding.
    """
    if is_gang(case):
        yield from _without_sharding(case)
    if any(_slices(source) or source.mentions(_PART) for source in case.sources):
        return  # the rows may have been divided before
    for source, call, function in _dataset_functions(case) if is_gang(case) else ():
        text = "\n".join(map(ast.unparse, reached(source, function)))
        if _ROWS.search(text) and not _SHARDS.search(text):
            what = f"This function creates the same dataset in all workers, so each ({case.tasks}) trains on all rows."
            context = function.args.args[0].arg if function.args.args else "context"
            advice = (
                "Divide the rows in the function, before shuffle() and batch(): "
                f"dataset.shard({context}.num_input_pipelines, {context}.input_pipeline_id)."
            )
            yield Hit(source.location(call), what, advice)


def _slices(source: Source) -> bool:
    """Return whether a file takes every n-th row of something, or splits it, as in `x[index::workers]`."""
    steps = (node.step for node in source.nodes if isinstance(node, ast.Slice))
    is_split = any(source.dotted(node) in _SPLITS for node in source.nodes if isinstance(node, ast.Attribute))
    return is_split or any(not isinstance(step, ast.Constant | ast.UnaryOp | None) for step in steps)


def _without_sharding(case: Case) -> Iterator[Hit]:
    """Find places that switch auto-sharding off, in a program that does not divide its finite data itself."""
    divides = any(source.mentions(_PART) for source in case.sources)
    for source in case.sources if not divides else ():
        for node in source.nodes:
            off = isinstance(node, ast.Attribute) and node.attr == "OFF" and "AutoShardPolicy" in ast.unparse(node)
            if off and any(_ROWS.search(ast.unparse(each.nodes[0])) for each in case.sources):
                what = f"This switches auto-sharding off, so each of the tasks ({case.tasks}) trains on all rows."
                advice = "Leave the policy at AUTO, or divide the rows yourself: dataset.shard(workers, index)."
                yield Hit(source.location(node), what, advice)


def undivided_batch(case: Case) -> Iterator[Hit]:
    """Find functions that create a worker's dataset with the global batch size."""
    replicas = replicas_of(case)
    if replicas is None:
        return
    for source, _, function in _dataset_functions(case):
        functions = reached(source, function)
        scaled = any("per_replica" in ast.unparse(each) for each in functions)
        for call in (node for each in functions for node in ast.walk(each) if isinstance(node, ast.Call)):
            size = argument(call, 0, "batch_size") if getattr(call.func, "attr", "") == "batch" else None
            if size is not None and not scaled and is_global_batch(source, size):
                context = function.args.args[0].arg if function.args.args else "context"
                what = (
                    f"The strategy does not divide the batches of a dataset function, so each {replicas.noun} gets a "
                    f"whole global batch: with {replicas.text}, each step has {replicas.times} times too many rows."
                )
                advice = f"Use the batch size {context}.get_per_replica_batch_size({ast.unparse(size)})."
                yield Hit(source.location(call), what, advice)


class _GlobalBatch(NamedTuple):
    """A product that is a global batch size.

    `name` is a name or an expression for the product, and `one` is the factor that is the batch size of one replica, as
    it is written; `number` is its value, if it is known.
    """

    name: str
    one: str
    number: int | None


def _sizes_of_one(source: Source) -> list[_GlobalBatch]:
    """Return the file's global batch sizes, each factor once."""
    found: dict[str, _GlobalBatch] = {}
    for node in source.nodes:
        match node:
            case ast.Assign(targets=[ast.Name() as name], value=ast.BinOp(left=left, op=ast.Mult(), right=right)):
                pass
            case ast.BinOp(left=left, op=ast.Mult(), right=right) as name:
                pass
            case _:
                continue
        for one, factor in ((left, right), (right, left)):
            text = ast.unparse(one)
            if REPLICAS.search(ast.unparse(factor)) and not REPLICAS.search(text) and text not in found:
                product = name.id if isinstance(name, ast.Name) else f"({ast.unparse(name)})"
                found[text] = _GlobalBatch(product, text, _number(source, one))
    return list(found.values())


def _row_counts(source: Source) -> set[int]:
    """Return the numbers that the file's names for numbers of rows have."""
    names = {node.id: node for node in source.nodes if isinstance(node, ast.Name) and _COUNTS.search(node.id)}
    return {number for node in names.values() if (number := _number(source, node)) is not None}


def _divisor(source: Source, steps: ast.AST, sizes: Sequence[_GlobalBatch], rows: set[int]) -> _GlobalBatch | None:
    """Return the size if `steps` is the result of dividing a number of rows by the batch size of one replica."""
    value: ast.AST | None = steps
    for _ in range(4):
        value = source.value(value)
        if isinstance(value, ast.Call) and len(value.args) == 1:  # int(...), math.ceil(...)
            value = value.args[0]
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div | ast.FloorDiv):
        divisor = ast.unparse(value.right)
        return next((size for size in sizes if size.one == divisor), None)
    count = _number(source, value) or 0
    for size in sizes:
        product = count * (size.number or 0)
        if product and count >= 2 and product in rows:
            return size
    return None


def _number(source: Source, node: ast.AST | None) -> int | None:
    """Return the value of an integer constant, or the only integer constant that the file assigns to a name.

    Return None if there is no such constant. A parameter with the same name is ignored.
    """
    values = source.values(node.id) if isinstance(node, ast.Name) else [node]
    found = [each.value for each in values if isinstance(each, ast.Constant) and type(each.value) is int]
    return found[0] if len(found) == 1 else None


def _dataset_functions(case: Case) -> Iterator[tuple[Source, ast.Call, ast.FunctionDef]]:
    """Yield (file, call, function) for each call by which a strategy creates datasets from a function in the file."""
    for source in case.sources:
        for _, call in source.calls():
            made = getattr(call.func, "attr", "").endswith("distribute_datasets_from_function")
            given = argument(call, 0, "dataset_fn")
            if isinstance(given, ast.Lambda) and isinstance(given.body, ast.Call):
                given = given.body.func
            if made and (function := function_of(source, given)) is not None:
                yield source, call, function


def _is_shard(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "shard" and len(node.args) == 2


def _looped(iterated: ast.expr) -> ast.Name | None:
    """Return the name of the dataset over which a loop iterates, perhaps through `enumerate`, `tqdm` or `take`."""
    match iterated:
        case ast.Name() as name:
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name() as name, attr="take")):
            return name
        case ast.Call(func=ast.Name(id="enumerate" | "tqdm"), args=[inner, *_]):
            return _looped(inner)
    return None


def _is_dataset(source: Source, node: ast.AST | None) -> bool:
    """Return whether a value is a dataset: the result of a tf.data function, possibly after further method calls."""
    calls = (each for each in source.chain(node) if isinstance(each, ast.Call))
    return any(source.dotted(call.func).startswith("tensorflow.data.") for call in calls)


def _distributed(source: Source) -> Iterator[tuple[str, str]]:
    """Yield (distributed, original): the names of a distributed dataset and of the original dataset."""
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
    """Return whether a loop passes its batches to `strategy.run`, directly or by way of a function in the file."""
    batch = _names(loop.target)
    for call in (node for statement in loop.body for node in ast.walk(statement) if isinstance(node, ast.Call)):
        if _runs_with(call, batch):
            return True
        if (function := function_of(source, call.func)) is not None:
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
