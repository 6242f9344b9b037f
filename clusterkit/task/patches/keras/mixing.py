"""Finds layers of the program whose results may depend on all rows of the batch, by reading their code.

Such a layer is called with the whole batch, and the layers that it calls are divided. A layer that is found needlessly
computes the same, but its inputs travel between the workers.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any

# Methods with which a layer adds to the loss, or changes its state.
OF_ALL_ROWS = frozenset({"add_loss", "assign", "assign_add", "assign_sub"})
# Functions that combine the rows if their axis is 0, or if they are called without one.
OF_AN_AXIS = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "reduce_")
    for name in (
        *("mean", "sum", "max", "min", "amax", "amin", "prod", "std", "var", "variance", "logsumexp", "any", "all"),
        *("moments", "median", "quantile", "norm", "cumsum", "cumprod", "sort", "argsort", "flip", "reverse", "roll"),
        *("transpose", "unique", "shuffle", "global_norm", "l2_loss"),
    )
)
AXES = ("axis", "axes", "perm", "shift", "ord")
TRANSPOSED = ("transpose_a", "transpose_b")
NOT_CALLED = ("__init__", "build", "get_config", "compute_output_shape", "train_step", "test_step")


def mixes_rows(layer: Any) -> bool:
    """Return whether the code of a layer, or of a Lambda layer's function, may combine the rows of a batch."""
    function = getattr(layer, "function", None)
    kind: Any = type(layer)
    return is_mixing(kind) or (kind.__name__ == "Lambda" and callable(function) and code_mixes(function))


@cache
def is_mixing(kind: Any) -> bool:
    methods = [
        method
        for each in kind.__mro__
        if each is not object and not each.__module__.startswith(("keras.", "tensorflow."))
        for name, method in vars(each).items()
        if name not in NOT_CALLED and callable(getattr(method, "__wrapped__", method))
    ]
    return any(map(code_mixes, methods))


def code_mixes(function: Any) -> bool:
    """Return whether a function's code may combine rows. Without its source, only the names in it are known."""
    function = getattr(function, "python_function", function)  # of a tf.function
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    names = set(names_in(code))
    if not names.isdisjoint(OF_ALL_ROWS):
        return True
    if names.isdisjoint(OF_AN_AXIS) and names.isdisjoint({"matmul", "einsum", "tensordot"}):
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.Call) and call_mixes(node) for node in ast.walk(tree))


def names_in(code: Any) -> Iterator[str]:
    """Yield the names that a function's code refers to, and those of the functions in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from names_in(constant)


def call_mixes(call: ast.Call) -> bool:
    """Return whether a call may combine rows: a reduction over axis 0 or over all axes, or a product of all rows."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if name == "matmul":
        return any(key in keywords for key in TRANSPOSED)
    if name not in OF_AN_AXIS:
        return False
    axis = next((keywords[key] for key in AXES if key in keywords), None)
    if axis is None:
        axis = call.args[1] if len(call.args) > 1 else None
    if axis is None:
        return True
    return any(isinstance(node, ast.Constant) and node.value in (0, None) for node in ast.walk(axis))
