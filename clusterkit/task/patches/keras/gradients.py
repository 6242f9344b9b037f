"""Patches TensorFlow's gradient tapes: in a step of Keras 3, gradients are those of the whole batch (see step.py)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any


def fixes(trainer: Any) -> tuple[Callable[[Any, Any], None], ...]:
    """Return this file's patches. Raises AttributeError if TensorFlow's internals differ."""
    kind = trainer.tf.GradientTape
    assert all(map(callable, (kind.gradient, kind.watch, kind.jacobian, kind.batch_jacobian)))
    return return_whole_gradients, return_whole_jacobians


def return_whole_gradients(trainer: Any, load: Any) -> None:
    """Patch `gradient` and `watch` of tapes: in a step, the gradients are those of the whole batch."""
    tf, steps, hook = trainer.tf, load("task/patches/keras/step"), load("task/patches/hook")
    kind = tf.GradientTape
    gradient, watch = kind.gradient, kind.watch

    def whole_gradient(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        step = steps.whole()
        if step is None:
            return gradient(self, target, sources, *args, **kwargs)
        leaves = tf.nest.flatten(sources)
        joined = {place: step.parts[leaf.ref()] for place, leaf in enumerate(leaves) if step.is_joined(leaf)}
        parts = [part for part, _ in joined.values()]
        with step.mode(local=True):  # gradients of what layers exchange among the workers
            grads = gradient(self, target, [*leaves, *parts], *args, **kwargs)
        for (place, (_, span)), of_part in zip(joined.items(), grads[len(leaves) :], strict=True):
            grads[place] = added(step, grads[place], of_part, span)
        return tf.nest.pack_sequence_as(sources, of_variables(tf, step, leaves, grads[: len(leaves)]))

    def watch_parts(self: Any, tensor: Any) -> None:
        watch(self, tensor)
        step = steps.whole()
        if step is None:
            return
        for leaf in tf.nest.flatten(tensor):
            if step.is_joined(leaf):
                watch(self, step.parts[leaf.ref()][0])

    hook.replace(kind, "gradient", whole_gradient)
    hook.replace(kind, "watch", watch_parts)


def return_whole_jacobians(trainer: Any, load: Any) -> None:
    """Patch `jacobian` of tapes and, for a model's inputs and outputs, `batch_jacobian`."""
    tf, steps, hook = trainer.tf, load("task/patches/keras/step"), load("task/patches/hook")
    kind = tf.GradientTape
    jacobian, batch_jacobian = kind.jacobian, kind.batch_jacobian

    def whole_jacobian(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        step = steps.whole()
        if step is None:
            return jacobian(self, target, sources, *args, **kwargs)
        with step.mode(local=True):
            found = tf.nest.flatten(jacobian(self, target, sources, *args, **kwargs))
        return tf.nest.pack_sequence_as(sources, of_variables(tf, step, tf.nest.flatten(sources), found))

    def whole_batch_jacobian(self: Any, target: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        step = steps.whole()
        if step is None or not (step.is_joined(target) and step.is_joined(source)):
            return batch_jacobian(self, target, source, *args, **kwargs)
        (part_of_target, span), (part_of_source, _) = step.parts[target.ref()], step.parts[source.ref()]
        with step.mode(local=True):
            part = batch_jacobian(self, part_of_target, part_of_source, *args, **kwargs)
        return step.join(part, span)

    hook.replace(kind, "jacobian", whole_jacobian)
    hook.replace(kind, "batch_jacobian", whole_batch_jacobian)


def of_variables(tf: Any, step: Any, sources: list[Any], grads: list[Any]) -> list[Any]:
    """Return the gradients; those of variables are the means over all replicas."""
    places = [place for place, leaf in enumerate(sources) if is_variable(tf, leaf) and grads[place] is not None]
    for place, mean in zip(places, means(tf, step, [grads[place] for place in places]), strict=True):
        grads[place] = mean
    return grads


def is_variable(tf: Any, leaf: Any) -> bool:
    return isinstance(leaf, tf.Variable) or hasattr(leaf, "_should_act_as_resource_variable")


def added(step: Any, grad: Any, of_part: Any, span: Any) -> Any:
    """Return the sum of the gradients that reach a joined tensor and its parts."""
    if of_part is None:
        return grad
    whole = step.join(of_part, span) / step.tf.cast(step.replicas, of_part.dtype)
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
