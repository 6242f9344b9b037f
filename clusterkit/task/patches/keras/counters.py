"""Patches the variables of Keras 3 on parameter servers, so that concurrent additions by workers are not lost.

Keras adds to a variable by assigning the sum of the old value and a change. If two workers do this at the same time,
one overwrites the other's change: with two workers, a third of the step counts and of the rows in metrics is lost. The
patch finds such sums in the graph of a step, and makes the server add the change.

An assignment becomes an addition only if both are proven to mean the same in a single worker: the old value was read in
the same graph, and nothing between the read and the assignment can have written to a variable. TensorFlow's automatic
control dependencies execute reads and writes in the order in which the program requests them. So the order of the
graph's operations is proof, also against writes by an inner function, a branch, a loop or Python code, or through
another handle of the variable. All other assignments are left alone.
"""

from __future__ import annotations

import sys
from typing import Any

SAME = ("Identity", "Cast")  # the types of operations that can return their input unchanged
# Stateful operations that write to no variable. Any other stateful operation could run a function that does.
HARMLESS = ("ReadVariableOp", "RandomStandardNormal", "RandomUniform", "RandomUniformInt", "TruncatedNormal")
# The types that the operations Add and AssignAdd compute in the same way. AssignAdd does not support all other types.
TYPES = ("bfloat16", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")


def add_on_the_server(module: Any, load: Any) -> None:
    """Patch variable assignment: `v.assign(v + delta)` becomes `v.assign_add(delta)`, which the server executes."""
    kind = module.Variable
    assign = kind._direct_assign

    def _direct_assign(self: Any, value: Any) -> Any:
        tf = sys.modules["tensorflow"]
        if tf.executing_eagerly() or not is_server_variable(tf, self._value):
            return assign(self, value)
        signed_change = change_of(tf, self._value, value)
        if signed_change is None:
            return assign(self, value)
        sign, change = signed_change
        add = self._value.assign_add if sign > 0 else self._value.assign_sub
        add(change)
        load("task/patches/told").effect("keras-ps", load)
        return None

    load("task/patches/hook").replace(kind, "_direct_assign", _direct_assign)


def is_server_variable(tf: Any, variable: Any) -> bool:
    """Return whether this is TensorFlow's own variable on a parameter server, to which one replica writes at a time.

    A class of the program may do something else in `assign` than in `assign_add`. If a worker has several replicas,
    TensorFlow aggregates the assigned values, and the sum of sums is not the old value plus the sum of the changes.
    """
    strategy = tf.distribute.get_strategy()
    if not isinstance(strategy, tf.distribute.ParameterServerStrategy):
        return False
    if not type(variable).__module__.startswith("tensorflow."):
        return False
    first_only = getattr(variable, "aggregation", None) == tf.VariableAggregation.ONLY_FIRST_REPLICA
    return bool(strategy.num_replicas_in_sync == 1 or first_only)


def change_of(tf: Any, variable: Any, value: Any) -> tuple[int, Any] | None:
    """Return (sign, change) if `value` is proven to be the variable's present value plus or minus a change.

    The change has the variable's type and shape. Return None if this is not so, or unknown.
    """
    if not isinstance(value, tf.Tensor):  # such as a number, or slices of a tensor
        return None
    total = passed(value)
    operation = getattr(total, "op", None)
    if operation is None or operation.type not in ("AddV2", "Add", "Sub"):
        return None
    if total.dtype != variable.dtype or total.dtype.name not in TYPES:
        return None
    # A fully defined shape of the sum also proves that a change of unknown shape can be broadcast to it.
    if not variable.shape.is_fully_defined() or total.shape != variable.shape:
        return None
    first, second = operation.inputs
    if first.shape == variable.shape and is_present_value(tf, variable, first):
        return (-1 if operation.type == "Sub" else 1), shaped(tf, second, variable)
    if operation.type != "Sub" and second.shape == variable.shape and is_present_value(tf, variable, second):
        return 1, shaped(tf, first, variable)
    return None


def shaped(tf: Any, change: Any, variable: Any) -> Any:
    return change if change.shape == variable.shape else tf.broadcast_to(change, variable.shape)


def is_present_value(tf: Any, variable: Any, tensor: Any) -> bool:
    """Return whether `tensor` was read from the variable, which cannot have changed since, except by other workers."""
    read, graph = passed(tensor).op, tf.compat.v1.get_default_graph()
    handle = getattr(variable, "handle", None)
    if read.type != "ReadVariableOp" or handle is None or read.graph is not graph:
        return False
    if not getattr(graph, "_add_control_dependencies", False):
        return False  # the graph's operations are executed in another order than that of the program
    if graph._get_control_flow_context() is not None or read._get_control_flow_context() is not None:
        return False  # a branch or loop of TensorFlow 1, which has no graph of its own
    return read.inputs[0] is graph.capture(handle) and not may_have_written_since(graph, read)


def may_have_written_since(graph: Any, read: Any) -> bool:
    """Return whether an operation after `read` may have written to a variable, whichever variable that is.

    Two handles can belong to the same variable, so handles are not compared.
    """
    for operation in reversed(graph.get_operations()):
        if operation is read:
            return False
        if operation.type not in HARMLESS and has_effects(operation):
            return True
    return True


def has_effects(operation: Any) -> bool:
    """Return whether an operation is stateful, or takes a handle or dataset. Many writes are not marked as stateful."""
    types = [each.dtype for each in operation.inputs]
    takes_handle = any(one.name in ("resource", "variant") or one._is_ref_dtype for one in types)
    return takes_handle or bool(operation.op_def.is_stateful)


def passed(tensor: Any) -> Any:
    """Return the tensor of which `tensor` is a direct or indirect copy; `tensor` itself if it is not a copy."""
    while getattr(getattr(tensor, "op", None), "type", "") in SAME and tensor.op.inputs[0].dtype == tensor.dtype:
        tensor = tensor.op.inputs[0]
    return tensor
