"""Divides the calls of Keras 3's layers, and its own losses and metrics, among the workers: see step.py.

Whatever else a program computes in a step is computed by every worker from the whole batch, so it needs no patch.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
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
    assert callable(trainer.metrics_module.Metric.update_state)
    return divide_layers, add_whole_losses, keep_scale, divide_losses, divide_metrics


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
        divided, piece = parts(tf, step, leaves)
        if piece is None:
            return call(self, *args, **kwargs)
        args, kwargs = trainer.tree.pack_sequence_as((args, kwargs), divided)
        before, step.piece = step.piece, piece
        try:
            with step.mode(local=True):
                outputs = call(self, *args, **kwargs)
        finally:
            step.piece = before

        def whole(output: Any) -> Any:
            if not isinstance(output, tf.Tensor) or output.dtype == tf.string:
                step.undivided[id(output)] = output
                return output
            if has_rows(output):
                return step.join(output, piece)
            say_once(ONE_NUMBER.format(name_of(self)))
            return step.weighed(output) if output.dtype.is_floating else output

        return trainer.tree.map_structure(whole, outputs)

    load("task/patches/hook").replace(kind, "__call__", __call__)


def wholes(tf: Any, step: Any, leaves: list[Any]) -> list[Any]:
    """Return a call's arguments for the whole batch: in a layer, tensors of which this replica has its own rows."""
    if step.piece is None:
        return leaves
    are_rows = [isinstance(leaf, tf.Tensor) and leaf.dtype != tf.string and has_rows(leaf) for leaf in leaves]
    return [step.join(leaf, step.piece) if joins else leaf for leaf, joins in zip(leaves, are_rows, strict=True)]


def back(tf: Any, step: Any, output: Any) -> Any:
    """Return this replica's part of what a layer has computed from the whole batch."""
    if is_joined(tf, step, output):
        return step.parts[output.ref()][0]
    if not isinstance(output, tf.Tensor) or not output.dtype.is_floating or step.piece is None:
        return output
    if not has_rows(output):
        return step.shared(output)
    times = tf.shape(output)[0] // tf.maximum(step.piece.total, 1)
    return step.split(output, step.piece.times(tf, step.piece.length * times))


def parts(tf: Any, step: Any, leaves: list[Any]) -> tuple[list[Any], Any]:
    """Return this replica's parts of a call's arguments, and its piece of their rows; None if no argument has rows.

    A tensor whose number of rows is known when the step is traced has no rows of the batch, which varies in size.
    """
    piece = next((step.parts[leaf.ref()][1] for leaf in leaves if is_joined(tf, step, leaf)), None)
    if piece is None and any(id(leaf) in step.undivided for leaf in leaves):
        piece = step.data
    if piece is None:
        first = next((leaf for leaf in leaves if isinstance(leaf, tf.Tensor) and is_whole(tf, step, leaf)), None)
        piece = None if first is None else step.piece_of(tf.shape(first)[0])
    return [part(tf, step, leaf, piece) for leaf in leaves] if piece is not None else leaves, piece


def part(tf: Any, step: Any, leaf: Any, piece: Any) -> Any:
    """Return this replica's part of a tensor with as many rows as the piece; a tensor with other rows unchanged."""
    if is_joined(tf, step, leaf):
        return step.parts[leaf.ref()][0]
    if not isinstance(leaf, tf.Tensor) or not is_whole(tf, step, leaf):
        return leaf
    rows = tf.shape(leaf)[0]
    own = type(piece)(tf, *(tf.where(rows == piece.total, one, other) for one, other in ends(piece, rows)))
    divided = step.split(leaf, own)
    mask = getattr(leaf, "_keras_mask", None)
    if mask is not None:
        divided._keras_mask = part(tf, step, mask, piece)
    return divided


def ends(piece: Any, rows: Any) -> Iterator[tuple[Any, Any]]:
    """Yield start, size and total of the piece, each with its value for a tensor that is used whole."""
    return zip((piece.start, piece.size, piece.total), (0, rows, rows), strict=True)


def is_joined(tf: Any, step: Any, leaf: Any) -> bool:
    return isinstance(leaf, tf.Tensor) and leaf.ref() in step.parts


def is_whole(tf: Any, step: Any, leaf: Any) -> bool:
    """Return whether a tensor may have the rows of the batch: in a graph, their number is unknown."""
    if not leaf.shape.rank or id(leaf) in step.undivided or leaf.dtype == tf.string:
        return False
    return leaf.shape[0] is None or (hasattr(leaf, "numpy") and bool(leaf.shape[0] == step.data.total))


def has_rows(output: Any) -> bool:
    return bool(output.shape.rank) and (output.shape[0] is None or hasattr(output, "numpy"))


def in_control_flow(tf: Any) -> bool:
    """Return whether a branch or the body of a loop is being traced, where workers do not exchange rows."""
    return not tf.executing_eagerly() and getattr(tf.compat.v1.get_default_graph(), "is_control_flow_graph", False)


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
            value = tf.convert_to_tensor(value)
            return step.join(value, step.data) if has_rows(value) else step.weighed(value)

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
    running: list[Any] = []  # the piece of the loss that is being computed, innermost last

    def __call__(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        step = steps.whole()
        leaves = trainer.tree.flatten((y_true, y_pred))
        divides = step is not None and type(self).call is wrapper.call and is_of_rows(self.fn)
        if not divides or in_control_flow(tf) or not all(is_joined(tf, step, leaf) for leaf in leaves):
            return call(self, y_true, y_pred, sample_weight)
        piece = step.parts[leaves[-1].ref()][1]
        own = trainer.tree.map_structure(lambda leaf: step.parts[leaf.ref()][0], (y_true, y_pred))
        running.append((step, piece))
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
        step, piece = running[-1]
        if not has_rows(values):
            raise OneNumber
        with step.mode(local=False):
            mask = None if mask is None else step.join(mask, piece)
            return reduce(step.join(values, piece), sample_weight, mask, *args, **kw)

    replace(losses.Loss, "__call__", __call__)
    replace(losses, "reduce_weighted_values", reduce_weighted_values)


def is_of_rows(function: Any) -> bool:
    """Return whether this is a function of Keras that computes a number of each row from that row alone."""
    return is_from_keras(function) and getattr(function, "__name__", "") not in MIXED


def divide_metrics(trainer: Any, load: Any) -> None:
    """Patch Keras's metrics of targets and predictions to count a replica's own rows. The sums are added up when read.

    Other metrics are updated by all replicas with the whole batch.
    """
    tf, steps = trainer.tf, load("task/patches/keras/step")
    waiting, seen = [trainer.metrics_module.Metric], set[Any]()
    while waiting:
        kind = waiting.pop()
        waiting.extend(kind.__subclasses__())
        if kind not in seen and is_from_keras(kind) and "update_state" in vars(kind):
            kind.update_state = divided_update(trainer, tf, steps, kind.update_state)
        seen.add(kind)


def divided_update(trainer: Any, tf: Any, steps: Any, update: Any) -> Any:
    @wraps(update)
    def update_state(self: Any, *args: Any, **kwargs: Any) -> Any:
        step = steps.whole()
        if step is None:
            return update(self, *args, **kwargs)
        step.results.clear()
        if not is_divided(self) or in_control_flow(tf):
            return update(self, *args, **kwargs)
        leaves, piece = parts(tf, step, trainer.tree.flatten((args, kwargs)))
        if piece is None:
            return update(self, *args, **kwargs)
        args, kwargs = trainer.tree.pack_sequence_as((args, kwargs), leaves)
        before = [tf.identity(step.copy_of(vars(each)["_value"])) for each in self.variables]
        with step.mode(local=True):
            result = update(self, *args, **kwargs)
            for variable, value in zip(self.variables, before, strict=True):
                copy = step.copy_of(vars(variable)["_value"])
                copy.assign(tf.where(piece.size > 0, copy.read_value(), value))
        return result

    update_state.autograph_info__ = None  # type: ignore[attr-defined]
    return update_state


def is_divided(metric: Any) -> bool:
    """Return whether each replica updates a metric with its own rows, and the variables are to be added up."""
    kind = type(metric)
    if hasattr(metric, "metrics"):  # a collection: each of its metrics is updated in its own way
        return False
    if not is_from_keras(kind) or "y_true" not in inspect.signature(kind.update_state).parameters:
        return False
    return is_of_rows(metric._fn) if hasattr(metric, "_fn") else True


def flat(metrics: Any) -> Iterator[Any]:
    """Yield the metrics, and instead of a collection of metrics those in it."""
    for metric in metrics:
        inner = getattr(metric, "metrics", None)
        if inner is None:
            yield metric
        else:
            yield from flat(inner)


@contextmanager
def reading(trainer: Any, step: Any, metrics: Any) -> Iterator[None]:
    """Within the context, the metrics return their results for the rows of all replicas."""
    tf = trainer.tf
    scope = sys.modules["keras.src.backend.common.stateless_scope"].StatelessScope
    every = list({id(metric): metric for metric in flat(metrics)}.values())
    divided = [metric for metric in every if is_divided(metric)]
    first = tf.VariableAggregation.ONLY_FIRST_REPLICA
    for metric in every:
        for variable in metric.variables if metric not in divided else ():
            value = vars(variable)["_value"]
            if hasattr(value, "_values"):  # the same in all replicas, so it is not to be added up
                value._aggregation = first

    def read(metric: Any, plain: Any, *args: Any, **kwargs: Any) -> Any:
        if step.is_local or in_control_flow(tf):
            return plain(*args, **kwargs)
        if not step.results:
            variables = [variable for each in divided for variable in each.variables]
            sums = iter(sums_of_all(step, [variable.value for variable in variables]))
            step.results.update({id(each): [next(sums) for _ in each.variables] for each in divided})
        with scope(state_mapping=list(zip(metric.variables, step.results[id(metric)], strict=True))):
            return plain(*args, **kwargs)

    for metric in divided:
        vars(metric)["result"] = partial(read, metric, partial(type(metric).result, metric))
    try:
        yield
    finally:
        for metric in divided:
            vars(metric).pop("result", None)


def sums_of_all(step: Any, values: list[Any]) -> list[Any]:
    """Return each value's sum over all replicas. Values of the same data type share one collective operation."""
    tf, sums = step.tf, list(values)
    for kind in dict.fromkeys(value.dtype for value in values):
        places = [place for place, value in enumerate(values) if value.dtype == kind]
        flat = [tf.reshape(tf.convert_to_tensor(values[place]), [-1]) for place in places]
        (total,) = step.sum_of_all([tf.concat(flat, 0)])
        for place, value in zip(places, tf.split(total, [tf.size(each) for each in flat]), strict=True):
            sums[place] = tf.reshape(value, values[place].shape)
    return sums
