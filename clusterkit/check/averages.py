"""Rules about averages over the rows of one worker that have to be averages over the whole batch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from clusterkit.check.case import MULTI_WORKER, OUR_STRATEGY, Case, Hit
from clusterkit.check.source import Source
from clusterkit.words.model import Shape

_MEANS = {"tensorflow.reduce_mean", "tensorflow.math.reduce_mean", "keras.ops.mean"}
_SUMS = {"tensorflow.reduce_sum", "tensorflow.math.reduce_sum", "keras.ops.sum"}
_FULL = re.compile(r"repeat|divide_no_nan")  # in code without an empty share of a batch, or without a division by 0
_MODELS = {"keras.Model", "keras.models.Model", "keras.Sequential", "keras.models.Sequential"}
_LOSS = re.compile(r"keras\.losses\.[A-Z]\w+")
_SCALES = re.compile(r"(?i)compute_average_loss|num_replicas|global_?batch|num_workers|world_size|scale_loss")
_PER_REPLICA = re.compile(r"(?i)(?:batch\w*)?per_?(?:replica|worker|gpu)(?:\w*batch\w*)?|local_batch\w*")


def loss_per_replica(case: Case) -> Iterator[Hit]:
    """Find custom training steps whose loss is the mean over one worker's rows."""
    if is_gang(case) and not any(source.mentions(_SCALES) for source in case.sources):
        for source in case.sources:
            for step in _replica_functions(source):
                if (mean := _mean_under_tape(source, step, case.keras)) is not None:
                    tasks = len(case.job.training)
                    what = (
                        "The mean is over the rows of one worker, and the strategy adds up the gradients of the "
                        f"workers: with {case.tasks} they are {tasks} times too large."
                    )
                    advice = (
                        "Divide it by self.distribute_strategy.num_replicas_in_sync, or use self.compute_loss."
                        if step.name == "train_step" and step.args.args[:1] and step.args.args[0].arg == "self"
                        else "Use tf.nn.compute_average_loss(losses, global_batch_size=...) with a loss per row."
                    )
                    yield Hit(source.location(mean), what, advice)


def batch_per_replica(case: Case) -> Iterator[Hit]:
    """Find datasets whose batches have one worker's size, although the strategy splits each batch among the workers."""
    if not is_gang(case) or case.names({"tensorflow.distribute.InputContext"}):
        return
    for source in case.sources:
        if any(getattr(node, "attr", "").endswith("_from_function") for node in source.nodes):
            continue  # a function that creates a worker's dataset has to use the size of one worker's batch
        for _, call in source.calls():
            size = next(iter(call.args), None)
            name = size.id if isinstance(size, ast.Name) else ""
            if getattr(call.func, "attr", "") == "batch" and _PER_REPLICA.fullmatch(name):
                what = f"The strategy splits each batch among the workers: each gets a part of {name} rows."
                advice = "Batch by the global batch: that size times strategy.num_replicas_in_sync."
                yield Hit(source.location(call), what, advice)


def division_by_no_rows(case: Case) -> Iterator[Hit]:
    """Find divisions by a sum over a replica's rows, if its last batch may be too small to give each replica a row."""
    mirrored = case.names({MULTI_WORKER, OUR_STRATEGY, "tensorflow.distribute.MirroredStrategy"})
    batches = any(getattr(call.func, "attr", "") == "batch" for source in case.sources for _, call in source.calls())
    if not mirrored or not batches or any(source.mentions(_FULL) or _drops(source) for source in case.sources):
        return
    for source in case.sources:
        functions = [node for node in source.nodes if isinstance(node, ast.FunctionDef)]
        for node in dict.fromkeys(node for function in functions for node in ast.walk(function)):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is_sum(source, node.right):
                what = (
                    "This divides by a sum over the rows of one replica. If the last batch has fewer rows than there "
                    "are replicas, a replica gets none, and 0 / 0 is NaN, which all replicas get."
                )
                advice = (
                    "Give batch() drop_remainder=True, let the dataset repeat before it is batched, or divide with "
                    "tf.math.divide_no_nan."
                )
                yield Hit(source.location(node), what, advice)


def is_gang(case: Case) -> bool:
    """Return whether the job is a gang of workers that train with a strategy that the program creates."""
    is_made = any(True for _ in case.calls(MULTI_WORKER, OUR_STRATEGY))
    return case.job.shape is Shape.MULTI_WORKER and case.is_distributed and is_made


def _replica_functions(source: Source) -> Iterator[ast.FunctionDef]:
    """Yield the functions of the file that the program or `fit` passes to `strategy.run`."""
    for node in source.nodes:
        if isinstance(node, ast.ClassDef) and not _MODELS.isdisjoint(map(source.dotted, node.bases)):
            yield from (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "train_step")
    for _, call in source.calls():
        first = next(iter(call.args), None)
        function = source.value(first.id) if isinstance(first, ast.Name) else None
        if getattr(call.func, "attr", "") == "run" and isinstance(function, ast.FunctionDef):
            yield function


def _mean_under_tape(source: Source, step: ast.FunctionDef, keras: int) -> ast.Call | None:
    """Return the call under a gradient tape that averages over rows: a mean, or a loss with a reduction; else None.

    Losses of Keras 3 divide their mean by the number of replicas themselves.
    """
    for block in ast.walk(step):
        if isinstance(block, ast.With) and "GradientTape" in ast.dump(block.items[0].context_expr):
            for node in ast.walk(block):
                if isinstance(node, ast.Call) and (
                    source.dotted(node.func) in _MEANS or (keras == 2 and _is_reduced(source, node))
                ):
                    return node
    return None


def _is_reduced(source: Source, call: ast.Call) -> bool:
    """Return whether the call is that of a Keras loss that the file creates without the argument `reduction`."""
    loss = source.value(call.func.id) if isinstance(call.func, ast.Name) else None
    if not isinstance(loss, ast.Call) or not _LOSS.fullmatch(source.dotted(loss.func)):
        return False
    return not any(keyword.arg in ("reduction", None) for keyword in loss.keywords)


def _drops(source: Source) -> bool:
    """Return whether a dataset of the file drops its last batch if that is not full."""
    return any(keyword.arg == "drop_remainder" for _, call in source.calls() for keyword in call.keywords)


def _is_sum(source: Source, node: ast.expr) -> bool:
    """Return whether the value is a sum over rows, perhaps converted to another type."""
    if isinstance(node, ast.Call) and source.dotted(node.func) == "tensorflow.cast" and node.args:
        node = node.args[0]
    return isinstance(node, ast.Call) and source.dotted(node.func) in _SUMS
