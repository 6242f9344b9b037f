"""The replicas among which a strategy of the program divides each batch, and the functions that run in the replicas."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from clusterkit.check.case import MULTI_WORKER, OUR_STRATEGY, Case
from clusterkit.check.source import Source, argument
from clusterkit.words.model import Shape, number_of

MIRRORED = "tensorflow.distribute.MirroredStrategy"

_MODELS = {"keras.Model", "keras.models.Model", "keras.Sequential", "keras.models.Sequential"}
REPLICAS = re.compile(r"num_replicas|n_replicas|num_workers|world_size")  # names for the number of replicas
_GLOBAL_BATCH = re.compile(r"(?i)global_?batch(?:_?size)?")
_LOGICAL_DEVICES = re.compile("(?:Logical|Virtual)DeviceConfiguration")


class Replicas(NamedTuple):
    """How messages refer to the replicas.

    `noun` is `worker` or `device`. `text` is a phrase such as `2 devices`. `times` is the number of replicas, or `n` if
    the number is unknown.
    """

    noun: str
    text: str
    times: str


def replicas_of(case: Case) -> Replicas | None:
    """Return the replicas of the program's strategy; None if the strategy probably has only one replica."""
    if is_gang(case):
        return Replicas("worker", case.tasks, str(len(case.job.training)))
    logical = any(source.mentions(_LOGICAL_DEVICES) for source in case.sources)
    for source in case.sources:
        for name, call in source.calls():
            devices = argument(call, 0, "devices") if name == MIRRORED else None
            if isinstance(devices, ast.List | ast.Tuple) and len(devices.elts) > 1:
                return Replicas("device", number_of("device", len(devices.elts)), str(len(devices.elts)))
            if name == MIRRORED and not isinstance(devices, ast.List | ast.Tuple) and (devices is not None or logical):
                return Replicas("device", "n devices", "n")
    return None


def is_gang(case: Case) -> bool:
    """Return whether several workers train together, with a strategy that the program creates."""
    is_made = case.names({MULTI_WORKER}) or any(True for _ in case.calls(OUR_STRATEGY))
    return case.job.shape is Shape.MULTI_WORKER and case.is_distributed and bool(is_made)


def has_whole_steps(case: Case) -> bool:
    """Return whether each step of `fit` sees the whole batch in every worker, as the patches of Keras 3 make it."""
    return is_gang(case) and case.keras == 3 and case.job.patches


def replica_functions(case: Case, source: Source) -> Iterator[ast.FunctionDef]:
    """Yield the file's functions in which a replica sees its own rows, since `strategy.run` is called with them.

    `fit` calls it with the `train_step` of a model, unless this step sees the whole batch.
    """
    for node in source.nodes if not has_whole_steps(case) else ():
        if isinstance(node, ast.ClassDef) and is_model(source, node):
            yield from (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "train_step")
    for _, call in source.calls():
        if getattr(call.func, "attr", "") == "run" and (function := function_of(source, argument(call, 0, "fn"))):
            yield function


def is_model(source: Source, node: ast.AST | None) -> bool:
    """Return whether the node defines a class that is derived from a Keras model."""
    return isinstance(node, ast.ClassDef) and not _MODELS.isdisjoint(map(source.dotted, node.bases))


def function_of(source: Source, node: ast.AST | None) -> ast.FunctionDef | None:
    """Return the function or method in the file to which a name, or an attribute of `self`, refers."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            found = source.bindings.only(name)
        case _:
            found = source.value(node)
            if isinstance(found, ast.Call) and source.dotted(found.func) == "tensorflow.function":
                found = source.value(argument(found, 0, "func"))
    return found if isinstance(found, ast.FunctionDef) else None


def reached(source: Source, function: ast.FunctionDef) -> list[ast.FunctionDef]:
    """Return a function, and all functions in the file that this function calls directly or indirectly."""
    found = [function]
    for each in found:  # the loop also visits the functions that it appends
        calls = (node.func for node in ast.walk(each) if isinstance(node, ast.Call))
        found += [inner for inner in (function_of(source, func) for func in calls) if inner and inner not in found]
    return found


def is_global_batch(source: Source, node: ast.AST) -> bool:
    """Return whether a value is a global batch size, judging by its name or by a factor that counts replicas."""
    name = getattr(node, "attr", getattr(node, "id", ""))
    certain = source.value(node) if isinstance(node, ast.Name) else None
    values = [certain] if certain is not None else [value for value in source.values(name) if value is not None]
    grows = all(
        isinstance(getattr(value, "op", None), ast.Mult) and REPLICAS.search(ast.unparse(value)) for value in values
    )
    return _GLOBAL_BATCH.fullmatch(name) is not None or (bool(values) and grows)
