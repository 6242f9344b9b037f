"""Lets a step of Keras 3 on several workers compute as in a single process: variables, optimizers, shapes.

In a step, a variable is this worker's copy of it, so that assignments and optimizers do what they do in one process.
All workers assign the same values, since they compute with the whole batch: see step.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def fixes(trainer: Any) -> tuple[Callable[[Any, Any], None], ...]:
    """Return this file's patches. Raises AttributeError, KeyError or AssertionError if Keras's internals differ."""
    assert callable(variables()._initialize)
    assert callable(sys.modules["tensorflow.python.framework.auto_control_deps"].op_is_stateful)
    assert callable(optimizers()._distributed_tf_update_step)
    return read_own_copies, update_alone, count_one_replica, drop_unused, know_shapes


def variables() -> Any:
    return sys.modules["keras.src.backend.tensorflow.core"].Variable


def optimizers() -> Any:
    return sys.modules["keras.src.backend.tensorflow.optimizer"].TFOptimizer


def read_own_copies(trainer: Any, load: Any) -> None:
    """Patch Keras's variables: in a step, each is this replica's copy. New variables belong to all replicas."""
    kind, steps = variables(), load("task/patches/keras/step")
    initialize = kind._initialize

    def get(self: Any) -> Any:
        step, value = steps.whole(), vars(self).get("_value")
        return value if step is None else step.copy_of(value)

    def set_(self: Any, value: Any) -> None:
        vars(self)["_value"] = value

    def _initialize(self: Any, value: Any) -> None:
        step = steps.whole()
        if step is None:
            initialize(self, value)
            return
        with step.mode(local=True):
            initialize(self, value)

    kind._value = property(get, set_)
    load("task/patches/hook").replace(kind, "_initialize", _initialize)


def update_alone(trainer: Any, load: Any) -> None:
    """Patch optimizers: in a step, they update this replica's copies, as they update variables in a single process."""
    kind, steps = optimizers(), load("task/patches/keras/step")

    def get(self: Any) -> Any:
        step = steps.whole()
        return vars(self).get("_distribution_strategy") if step is None else step.alone

    def set_(self: Any, strategy: Any) -> None:
        vars(self)["_distribution_strategy"] = strategy

    kind._distribution_strategy = property(get, set_)


def count_one_replica(trainer: Any, load: Any) -> None:
    """Patch strategies: in a step, `num_replicas_in_sync` is 1, since the program computes with the whole batch."""
    kind, steps = trainer.tf.distribute.Strategy, load("task/patches/keras/step")
    while "num_replicas_in_sync" not in vars(kind):
        kind = kind.__base__
    number = kind.num_replicas_in_sync

    def num_replicas_in_sync(self: Any) -> Any:
        return number.fget(self) if steps.whole() is None else 1

    kind.num_replicas_in_sync = property(num_replicas_in_sync, doc=number.__doc__)


def drop_unused(trainer: Any, load: Any) -> None:
    """Patch functions to leave out the collective operations in step.py's set `droppable` whose results are unused."""
    module: Any = sys.modules["tensorflow.python.framework.auto_control_deps"]
    is_stateful, droppable = module.op_is_stateful, load("task/patches/keras/step").droppable

    def op_is_stateful(operation: Any) -> bool:
        return operation not in droppable and is_stateful(operation)

    module.op_is_stateful = op_is_stateful


def know_shapes(trainer: Any, load: Any) -> None:
    """Patch `tf.shape` of a joined tensor to compute the shape from this replica's part.

    A joined tensor that is not used is not computed, so predictions need not travel for their number of rows alone.
    """
    tf, steps = trainer.tf, load("task/patches/keras/step")
    plain = tf.shape

    def shape(input: Any, out_type: Any = None, name: Any = None) -> Any:
        step = steps.whole()
        if step is None or not (step.is_joined(input) or id(input) in step.undivided):
            return plain(input, out_type, name)
        part, span = (input, step.data) if id(input) in step.undivided else step.parts[input.ref()]
        dims = plain(part, out_type)
        if not input.shape.rank:
            return dims
        total = span.times(tf, tf.cast(dims[0], tf.int32)).total
        return tf.concat([[tf.cast(total, dims.dtype)], dims[1:]], 0, name or "shape")

    load("task/patches/hook").replace(tf, "shape", shape)
