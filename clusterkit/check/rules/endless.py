"""A rule about infinite datasets, with which the first epoch never ends."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import partial

from clusterkit.check.case import Case, Hit
from clusterkit.check.rules.replicas import function_of
from clusterkit.check.source import DISTRIBUTES, Source, argument

_ENDS = {"take", "take_while", "as_numpy_iterator", "apply"}
_STOPS = re.compile(r"^stop_training$")  # with which a callback ends `fit` within an epoch


def endless_epoch(case: Case) -> Iterator[Hit]:
    """Find infinite datasets in calls of `fit` without a number of steps, and in loops without an exit."""
    stops = any(source.mentions(_STOPS) for source in case.sources)
    for source in case.sources:
        for node in source.nodes:
            match node:
                case ast.Call(func=ast.Attribute(attr="fit"), keywords=keywords):
                    counted = stops or any(keyword.arg in ("steps_per_epoch", None) for keyword in keywords)
                    data = None if counted else argument(node, 0, "x")
                    advice = (
                        "Pass steps_per_epoch=rows // batch_size to fit, or make the data finite: remove repeat() or "
                        "the endless loop of the generator."
                    )
                case ast.For(iter=data, body=body):
                    inside = [each for statement in body for each in ast.walk(statement)]
                    leaves = (isinstance(each, ast.Break | ast.Return | ast.Raise) for each in inside)
                    if any(leaves) or any(map(source.may_end, inside)):
                        continue
                    advice = (
                        "End the loop after the steps of an epoch, with break or take(steps), or make the data finite: "
                        "remove repeat()."
                    )
                case _:
                    continue
            if source.always(data, partial(_is_endless, source)):
                what = "The data is infinite, and nothing here limits the number of steps: the first epoch never ends."
                yield Hit(source.location(node), what, advice)


def _is_endless(source: Source, data: ast.AST) -> ast.AST | bool:
    """Return whether a dataset is infinite; if this depends on another value, return that value.

    The other value may be the result of a function in the file, the dataset before its distribution, or the dataset in
    a call such as `enumerate(dataset)` or `tqdm(dataset)`.
    """
    match data:
        case ast.Call(func=ast.Attribute(attr="repeat"), args=args, keywords=keywords):
            return not args and not keywords
        case ast.Call(func=ast.Name(id="enumerate" | "tqdm" | "iter"), args=[inner, *_]):
            return inner
        case ast.Call(func=ast.Attribute(attr=attr), args=[inner, *_]) if attr == DISTRIBUTES:
            return inner
        case ast.Call(func=func) if (function := function_of(source, func)) is not None:
            if any(isinstance(each, ast.Yield) for each in ast.walk(function)):
                return _yields_endlessly(function)
            returned = [each.value for each in ast.walk(function) if isinstance(each, ast.Return)]
            return returned[0] or False if len(returned) == 1 else False
        case ast.Call(func=ast.Attribute(attr="from_generator"), args=[made, *_]):
            generator = function_of(source, made)
            return generator is not None and _yields_endlessly(generator)
        case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr not in _ENDS:
            return owner
    return False


def _yields_endlessly(generator: ast.FunctionDef) -> bool:
    """Return whether a generator yields in a `while True` loop that the generator never leaves."""
    for loop in ast.walk(generator):
        if isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant) and loop.test.value:
            inside = [*ast.walk(loop)]
            leaves = any(isinstance(each, ast.Break | ast.Return | ast.Raise) for each in inside)
            return not leaves and any(isinstance(each, ast.Yield) for each in inside)
    return False
