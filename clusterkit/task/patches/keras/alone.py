"""Lets a step of Keras 3 on several workers compute as in a single process: variables, gradients, and the optimizer.

In a step, a variable is this worker's copy of it, so that assignments and optimizers do what they do in one process.
All workers assign the same values, since they compute with the whole batch: see step.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any


def fixes(trainer: Any) -> tuple[Callable[[Any, Any], None], ...]:
    """Return this file's patches. Raises AttributeError, KeyError or AssertionError if Keras's internals differ."""
    assert callable(variables()._initialize)
    assert callable(sys.modules["tensorflow.python.framework.auto_control_deps"].op_is_stateful)
    assert callable(optimizers()._distributed_tf_update_step)
    return read_own_copies, return_whole_gradients, update_alone, count_one_replica, drop_unused, know_shapes


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


def return_whole_gradients(trainer: Any, load: Any) -> None:
    """Patch gradient tapes: in a step, the gradients are those of the whole batch."""
    tf, steps, hook = trainer.tf, load("task/patches/keras/step"), load("task/patches/hook")
    kind = tf.GradientTape
    gradient, jacobian, batch_jacobian, watch = kind.gradient, kind.jacobian, kind.batch_jacobian, kind.watch

    def whole_gradient(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        step = steps.whole()
        if step is None:
            return gradient(self, target, sources, *args, **kwargs)
        leaves = tf.nest.flatten(sources)
        joined = {place: step.parts[leaf.ref()] for place, leaf in enumerate(leaves) if is_joined(tf, step, leaf)}
        parts = [part for part, _ in joined.values()]
        with step.mode(local=True):  # gradients of what layers exchange among the workers
            grads = gradient(self, target, [*leaves, *parts], *args, **kwargs)
        for (place, (_, piece)), of_part in zip(joined.items(), grads[len(leaves) :], strict=True):
            grads[place] = added(step, grads[place], of_part, piece)
        grads = grads[: len(leaves)]
        places = [place for place, leaf in enumerate(leaves) if is_variable(tf, leaf) and grads[place] is not None]
        for place, mean in zip(places, means(tf, step, [grads[place] for place in places]), strict=True):
            grads[place] = mean
        return tf.nest.pack_sequence_as(sources, grads)

    def whole_jacobian(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        step = steps.whole()
        if step is None:
            return jacobian(self, target, sources, *args, **kwargs)
        with step.mode(local=True):
            jacobians = jacobian(self, target, sources, *args, **kwargs)
        leaves, found = tf.nest.flatten(sources), tf.nest.flatten(jacobians)
        places = [place for place, leaf in enumerate(leaves) if is_variable(tf, leaf) and found[place] is not None]
        for place, mean in zip(places, step.mean_of_all([found[place] for place in places]), strict=True):
            found[place] = mean
        return tf.nest.pack_sequence_as(sources, found)

    def whole_batch_jacobian(self: Any, target: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        step = steps.whole()
        if step is None or not (is_joined(tf, step, target) and is_joined(tf, step, source)):
            return batch_jacobian(self, target, source, *args, **kwargs)
        (part_of_target, piece), (part_of_source, _) = step.parts[target.ref()], step.parts[source.ref()]
        with step.mode(local=True):
            part = batch_jacobian(self, part_of_target, part_of_source, *args, **kwargs)
        return step.join(part, piece)

    def watch_parts(self: Any, tensor: Any) -> None:
        step = steps.whole()
        for leaf in tf.nest.flatten(tensor) if step is not None else ():
            if is_joined(tf, step, leaf):
                watch(self, step.parts[leaf.ref()][0])
        watch(self, tensor)

    hook.replace(kind, "gradient", whole_gradient)
    hook.replace(kind, "jacobian", whole_jacobian)
    hook.replace(kind, "batch_jacobian", whole_batch_jacobian)
    hook.replace(kind, "watch", watch_parts)


def is_joined(tf: Any, step: Any, leaf: Any) -> bool:
    return isinstance(leaf, tf.Tensor) and leaf.ref() in step.parts


def is_variable(tf: Any, leaf: Any) -> bool:
    return isinstance(leaf, tf.Variable) or hasattr(leaf, "_should_act_as_resource_variable")


def added(step: Any, grad: Any, of_part: Any, piece: Any) -> Any:
    """Return the sum of the gradients that reach a joined tensor and its parts."""
    if of_part is None:
        return grad
    whole = step.join(of_part, piece) / step.tf.cast(step.replicas, of_part.dtype)
    return whole if grad is None else grad + whole


def means(tf: Any, step: Any, grads: list[Any]) -> list[Any]:
    """Return the mean of each gradient over the replicas.

    TensorFlow sums sparse gradients by concatenating the slices of all replicas, so an index may occur once per
    replica. A single process has each index only once in two cases: if the indices do not depend on the rows (such as
    positions), and if they come from `tf.unique`. In these cases, slices with the same index are added up here, since
    an optimizer that squares them separately would compute a different update.
    """
    dense, whole = [], list[Callable[[Any], Any]]()
    for grad in grads:
        if not isinstance(grad, tf.IndexedSlices):
            dense.append(grad)
            whole.append(lambda mean: mean)
        elif not step.is_local and step.graph is not None and not step.is_of_rows(grad.indices):
            dense.append(grad.values)
            whole.append(partial(slices, tf, grad))
        else:
            dense.append(None)
            whole.append(partial(concatenated, tf, step, grad))
    found = iter(step.mean_of_all([value for value in dense if value is not None]))
    return [make(None if value is None else next(found)) for make, value in zip(whole, dense, strict=True)]


def slices(tf: Any, like: Any, values: Any) -> Any:
    return tf.IndexedSlices(values, like.indices, like.dense_shape)


def concatenated(tf: Any, step: Any, grad: Any, _: Any) -> Any:
    """Return the slices of all replicas, divided by the number of replicas."""
    with step.mode(local=True):
        total = tf.distribute.get_replica_context().all_reduce("SUM", grad)
    values = total.values / tf.cast(step.replicas, total.values.dtype)
    whole = tf.IndexedSlices(values, total.indices, total.dense_shape)
    if step.graph is None or not is_unique(grad.indices):
        return whole
    indices, places = tf.unique(whole.indices)
    summed = tf.math.unsorted_segment_sum(whole.values, places, tf.size(indices))
    return tf.IndexedSlices(summed, indices, whole.dense_shape)


def is_unique(indices: Any) -> bool:
    """Return whether the indices come from `tf.unique`, which embedding lookups of sparse rows call."""
    while indices.op.type in ("Identity", "Cast", "Reshape"):
        indices = indices.op.inputs[0]
    return bool(indices.op.type.startswith("Unique") and indices.value_index == 0)


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
        if step is None or not (is_joined(tf, step, input) or id(input) in step.undivided):
            return plain(input, out_type, name)
        part, piece = (input, step.data) if id(input) in step.undivided else step.parts[input.ref()]
        dims = plain(part, out_type)
        if not input.shape.rank:
            return dims
        total = piece.times(tf, tf.cast(dims[0], tf.int32)).total
        return tf.concat([[tf.cast(total, dims.dtype)], dims[1:]], 0, name or "shape")

    load("task/patches/hook").replace(tf, "shape", shape)
