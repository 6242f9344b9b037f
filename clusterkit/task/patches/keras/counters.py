"""Patches the variables of Keras 3 on parameter servers, so that concurrent additions by workers are not lost.

Keras adds to a variable by assigning the sum of the old value and a change. If two workers do this at the same time,
one overwrites the other's change: with two workers, a third of the step counts and of the rows in metrics is lost. The
patch finds such sums in the graph of a step, and makes the server add the change.
"""

from __future__ import annotations

import sys
from typing import Any

SAME = ("Identity", "Cast")  # the types of operations that can return their input unchanged


def add_on_the_server(module: Any, load: Any) -> None:
    """Patch variable assignment: `v.assign(v + delta)` becomes `v.assign_add(delta)`, which the server executes."""
    kind = module.Variable
    assign = kind._direct_assign

    def _direct_assign(self: Any, value: Any) -> Any:
        tf = sys.modules["tensorflow"]
        if tf.executing_eagerly() or not isinstance(
            tf.distribute.get_strategy(), tf.distribute.ParameterServerStrategy
        ):
            return assign(self, value)
        signed_change = change_of(tf, self._value, value)
        if signed_change is None:
            return assign(self, value)
        sign, change = signed_change
        add = self._value.assign_add if sign > 0 else self._value.assign_sub
        add(tf.cast(change, self._value.dtype))
        return None

    load("task/patches/hook").replace(kind, "_direct_assign", _direct_assign)


def change_of(tf: Any, variable: Any, value: Any) -> tuple[int, Any] | None:
    """Return (sign, change) if `value` is computed as the variable's value plus or minus a change; otherwise None."""
    operation = getattr(passed(value), "op", None)
    if operation is None or operation.type not in ("AddV2", "Add", "Sub"):
        return None
    first, second = operation.inputs
    if first.shape == variable.shape and is_read_of(tf, variable, first):
        return (-1 if operation.type == "Sub" else 1), second
    if operation.type != "Sub" and second.shape == variable.shape and is_read_of(tf, variable, second):
        return 1, first
    return None


def is_read_of(tf: Any, variable: Any, tensor: Any) -> bool:
    operation = passed(tensor).op
    handle = getattr(variable, "handle", None)
    if operation.type != "ReadVariableOp" or handle is None:
        return False
    return operation.inputs[0] is tf.compat.v1.get_default_graph().capture(handle)


def passed(tensor: Any) -> Any:
    """Return the tensor of which `tensor` is a direct or indirect copy; `tensor` itself if it is not a copy."""
    while getattr(getattr(tensor, "op", None), "type", "") in SAME and tensor.op.inputs[0].dtype == tensor.dtype:
        tensor = tensor.op.inputs[0]
    return tensor
