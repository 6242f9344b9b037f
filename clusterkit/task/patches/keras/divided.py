"""Divides the calls of Keras 3's layers, and of its own losses, among the workers: see step.py.

Whatever else a program computes in a step is computed by every worker from the whole batch, so it needs no patch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

# Keras's functions whose result for a row depends on the other rows, or that return one number for the batch.
MIXED = frozenset({"dice", "tversky", "circle", "ctc", "pearson_correlation", "concordance_correlation", "correlation"})
ONE_NUMBER = (
    "{} returns one number for its rows. The mean of the workers' numbers is taken, weighed by rows, which is right "
    "for a mean over rows and for what does not depend on the rows."
)
ADDED = (
    "{} adds a number to the loss in its call. The mean of the workers' numbers is taken, weighed by rows: if the "
    "number is a sum over the rows, divide it by their number."
)
FROM_KERAS = ("keras.", "tf_keras.")


class OneNumber(Exception):
    """Raised when one of Keras's losses returns something else than one number per row."""


def fixes(trainer: Any) -> tuple[Callable[[Any, Any], None], ...]:
    """Return this file's patches. Raises AttributeError, KeyError or AssertionError if Keras's internals differ."""
    losses, layer = trainer.loss_module, layers()
    expected = losses.Loss.__call__, losses.reduce_weighted_values, layer.__call__, layer.add_loss
    assert all(map(callable, expected))
    assert callable(wrapped_loss().call)
    return divide_layers, add_whole_losses, keep_scale, divide_losses


def layers() -> Any:
    return sys.modules["keras.src.layers.layer"].Layer


def wrapped_loss() -> Any:
    """Return Keras's class of losses that call a function, such as `MeanSquaredError`."""
    return sys.modules["keras.src.losses.losses"].LossFunctionWrapper


def divide_layers(trainer: Any, load: Any) -> None:
    """Patch the outermost call of a layer or model in a step to compute this replica's rows, and to join the rows."""
    tf, kind, steps = trainer.tf, layers(), load("task/patches/keras/step")
    mixing = load("task/patches/keras/mixing")
    say_once = load("task/patches/keras/fit").say_once
    call = kind.__call__

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        step = steps.current()
        if step is None or in_control_flow(tf) or step.is_local != mixing.mixes_rows(self):
            return call(self, *args, **kwargs)
        leaves = trainer.tree.flatten((args, kwargs))
        if step.is_local:
            args, kwargs = trainer.tree.pack_sequence_as((args, kwargs), wholes(tf, step, leaves))
            with step.mode(local=False):
                outputs = call(self, *args, **kwargs)
            return trainer.tree.map_structure(partial(back, tf, step), outputs)
        divided, span = parts(tf, step, leaves)
        if span is None:
            return call(self, *args, **kwargs)
        args, kwargs = trainer.tree.pack_sequence_as((args, kwargs), divided)
        before, step.span = step.span, span
        try:
            with step.mode(local=True):
                outputs = call(self, *args, **kwargs)
        finally:
            step.span = before

        def whole(output: Any) -> Any:
            if not isinstance(output, tf.Tensor) or output.dtype == tf.string:
                step.undivided[id(output)] = output
                return output
            if has_rows(output, span.length):
                return step.join(output, span)
            say_once(ONE_NUMBER.format(name_of(self)))
            return step.weighed(output) if output.dtype.is_floating else output

        return trainer.tree.map_structure(whole, outputs)

    load("task/patches/hook").replace(kind, "__call__", __call__)


def wholes(tf: Any, step: Any, leaves: list[Any]) -> list[Any]:
    """Return a call's arguments for the whole batch: in a layer, tensors of which this replica has its own rows."""
    if step.span is None:
        return leaves
    length = step.span.length
    are_rows = [isinstance(leaf, tf.Tensor) and leaf.dtype != tf.string and has_rows(leaf, length) for leaf in leaves]
    return [step.join(leaf, step.span) if joins else leaf for leaf, joins in zip(leaves, are_rows, strict=True)]


def back(tf: Any, step: Any, output: Any) -> Any:
    """Return this replica's part of what a layer has computed from the whole batch."""
    if step.is_joined(output):
        return step.parts[output.ref()][0]
    if not isinstance(output, tf.Tensor) or output.dtype == tf.string or step.span is None:
        return output
    if not has_rows(output, step.span.total):
        return step.shared(output) if output.dtype.is_floating else output
    times = tf.shape(output)[0] // tf.maximum(step.span.total, 1)
    return step.split(output, step.span.times(tf, step.span.length * times))


def parts(tf: Any, step: Any, leaves: list[Any]) -> tuple[list[Any], Any]:
    """Return this replica's parts of a call's arguments, and its span of their rows; None if no argument has rows.

    A tensor whose number of rows is known when the step is traced has no rows of the batch, which varies in size.
    """
    span = next((step.parts[leaf.ref()][1] for leaf in leaves if step.is_joined(leaf)), None)
    if span is None and any(id(leaf) in step.undivided for leaf in leaves):
        span = step.data
    if span is None:
        first = next((leaf for leaf in leaves if isinstance(leaf, tf.Tensor) and is_whole(tf, step, leaf)), None)
        span = None if first is None else step.span_of(tf.shape(first)[0])
    return [part(tf, step, leaf, span) for leaf in leaves] if span is not None else leaves, span


def part(tf: Any, step: Any, leaf: Any, span: Any) -> Any:
    """Return this replica's part of a tensor with as many rows as the span; a tensor with other rows unchanged."""
    if step.is_joined(leaf):
        return step.parts[leaf.ref()][0]
    if not isinstance(leaf, tf.Tensor) or not is_whole(tf, step, leaf):
        return leaf
    divided = step.split(leaf, span.of_rows(tf, tf.shape(leaf)[0]))
    mask = getattr(leaf, "_keras_mask", None)
    if mask is not None:
        divided._keras_mask = part(tf, step, mask, span)
    return divided


def is_whole(tf: Any, step: Any, leaf: Any) -> bool:
    """Return whether a tensor may have the rows of the batch: in a graph, their number is unknown."""
    if not leaf.shape.rank or id(leaf) in step.undivided or leaf.dtype == tf.string:
        return False
    return leaf.shape[0] is None or (hasattr(leaf, "numpy") and bool(leaf.shape[0] == step.data.total))


def has_rows(value: Any, rows: Any) -> bool:
    """Return whether a tensor may have `rows` rows, or several for each. In a graph, such a number is unknown."""
    if not value.shape.rank:
        return False
    if hasattr(value, "numpy"):
        return bool(value.shape[0] % max(int(rows), 1) == 0)
    return value.shape[0] is None


def in_control_flow(tf: Any) -> bool:
    """Return whether a branch, the body of a loop or a function for XLA is being traced.

    There, workers do not exchange rows, and layers compute the whole batch.
    """
    if tf.executing_eagerly():
        return False
    graph = tf.compat.v1.get_default_graph()
    contexts = sys.modules["tensorflow.python.ops.control_flow_util"]
    return getattr(graph, "is_control_flow_graph", False) or bool(contexts.GraphOrParentsInXlaContext(graph))


def name_of(layer: Any) -> str:
    return f"{type(layer).__name__} {layer.name!r}"


def is_from_keras(kind: Any) -> bool:
    return str(getattr(kind, "__module__", "")).startswith(FROM_KERAS)


def add_whole_losses(trainer: Any, load: Any) -> None:
    """Patch `add_loss` in a layer's call to add the whole batch's loss: a mean over all rows."""
    tf, kind, steps = trainer.tf, layers(), load("task/patches/keras/step")
    fit, add = load("task/patches/keras/fit"), kind.add_loss

    def add_loss(self: Any, loss: Any) -> Any:
        step = steps.current()
        if step is None or not step.is_local:
            return add(self, loss)
        if not is_from_keras(type(self)):
            fit.say_once(ADDED.format(name_of(self)))

        def whole(value: Any) -> Any:
            value, span = tf.convert_to_tensor(value), step.span or step.data
            return step.join(value, span) if has_rows(value, span.length) else step.weighed(value)

        return add(self, trainer.tree.map_structure(whole, loss))

    load("task/patches/hook").replace(kind, "add_loss", add_loss)


def keep_scale(trainer: Any, load: Any) -> None:
    """Patch Keras not to divide a loss by the number of replicas in a step, where no sum over the replicas follows."""
    losses, steps, replace = trainer.loss_module, load("task/patches/keras/step"), load("task/patches/hook").replace
    for plain in (losses.scale_loss_for_distribution, losses.unscale_loss_for_distribution):

        def scale(value: Any, plain: Callable[[Any], Any] = plain) -> Any:
            return plain(value) if steps.current() is None else value

        replace(losses, plain.__name__, scale)


def divide_losses(trainer: Any, load: Any) -> None:
    """Patch Keras's losses of rows: a replica computes its own rows' numbers, which are joined and then reduced.

    Other losses, such as those of the program, are computed from the joined predictions.
    """
    tf, losses, steps = trainer.tf, trainer.loss_module, load("task/patches/keras/step")
    replace, wrapper = load("task/patches/hook").replace, wrapped_loss()
    call, reduce = losses.Loss.__call__, losses.reduce_weighted_values
    running: list[Any] = []  # the span of the loss that is being computed, innermost last

    def __call__(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        step = steps.whole()
        leaves = trainer.tree.flatten((y_true, y_pred))
        divides = step is not None and type(self).call is wrapper.call and is_of_rows(self.fn)
        if not divides or in_control_flow(tf) or not all(step.is_joined(leaf) for leaf in leaves):
            return call(self, y_true, y_pred, sample_weight)
        span = step.parts[leaves[-1].ref()][1]
        own = trainer.tree.map_structure(lambda leaf: step.parts[leaf.ref()][0], (y_true, y_pred))
        running.append((step, span))
        try:
            with step.mode(local=True):
                return call(self, *own, sample_weight)
        except OneNumber:
            pass
        finally:
            running.pop()
        return call(self, y_true, y_pred, sample_weight)

    def reduce_weighted_values(values: Any, sample_weight: Any = None, mask: Any = None, *args: Any, **kw: Any) -> Any:
        if not running or not running[-1][0].is_local or steps.current() is not running[-1][0]:
            return reduce(values, sample_weight, mask, *args, **kw)
        step, span = running[-1]
        if not has_rows(values, span.length):
            raise OneNumber
        with step.mode(local=False):
            mask = None if mask is None else step.join(mask, span)
            return reduce(step.join(values, span), sample_weight, mask, *args, **kw)

    replace(losses.Loss, "__call__", __call__)
    replace(losses, "reduce_weighted_values", reduce_weighted_values)


def is_of_rows(function: Any) -> bool:
    """Return whether this is a function of Keras that computes a number of each row from that row alone."""
    return is_from_keras(function) and getattr(function, "__name__", "") not in MIXED
