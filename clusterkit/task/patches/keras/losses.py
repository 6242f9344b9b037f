"""Patches losses of Keras 3 on several workers: the sum of the replicas' losses becomes the loss of the whole batch.

Keras divides each replica's mean loss by the number of replicas, which is correct only for means over rows, and only if
all replicas have the same number of rows. With the patches, a mean over rows is weighted by the replica's share of the
rows. A mean with masks or sample weights is divided by their sum over all replicas. A loss function that returns a
single number gets the rows of all replicas, since that number can't be divided into parts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

MEANS = ("sum_over_batch_size", "mean")
ADDED_TERM = (
    "compute_loss of {} adds a number that no Keras loss computes. It is taken for a mean over the rows of the batch: "
    "each worker's is weighed by the number of its rows."
)


class OneNumber(Exception):
    """Raised when a loss function returns a single number instead of one number per row."""


def fixes(trainer: Any) -> tuple[Callable[[Any, Any], None], ...]:
    """Return this file's patches. Raises AttributeError, KeyError or AssertionError if Keras's internals differ."""
    losses, kind = trainer.loss_module, trainer.loss_module.Loss
    totals = trainer.TensorFlowTrainer._compute_loss, trainer.base_trainer.Trainer.compute_loss
    assert callable(compiled()._build_nested)
    reductions = losses.reduce_values, losses.reduce_weighted_values, losses.apply_mask
    assert all(map(callable, (*totals, *reductions, kind.__call__)))
    return scale_means, divide_by_the_sum_of_all, compute_from_all_rows, wrap_calls, add_parts


def scale_means(trainer: Any, load: Any) -> None:
    """Patch Keras to multiply a mean loss by the replica's share of the rows, instead of by 1 / number of replicas."""
    steps, replace = load("task/patches/keras/step"), load("task/patches/hook").replace
    losses, tf = trainer.loss_module, trainer.tf
    scale, unscale = losses.scale_loss_for_distribution, losses.unscale_loss_for_distribution

    def scale_loss_for_distribution(value: Any) -> Any:
        step = steps.current(tf)
        if step is None:
            return scale(value)
        return value if step.has_all_rows or step.is_part(value) else step.as_part(value)

    def unscale_loss_for_distribution(value: Any) -> Any:
        step = steps.current(tf)
        if step is None:
            return unscale(value)
        return step.as_whole(value) if step.is_part(value) else value

    replace(losses, "scale_loss_for_distribution", scale_loss_for_distribution)
    replace(losses, "unscale_loss_for_distribution", unscale_loss_for_distribution)


def divide_by_the_sum_of_all(trainer: Any, load: Any) -> None:
    """Patch losses that divide by the sum of a replica's masks or weights to divide by the sum over all replicas."""
    steps, replace = load("task/patches/keras/step"), load("task/patches/hook").replace
    losses, tf = trainer.loss_module, trainer.tf
    reduce, mask_weights = losses.reduce_values, losses.apply_mask

    def reduce_values(values: Any, sample_weight: Any = None, reduction: Any = "sum_over_batch_size") -> Any:
        step = steps.current(tf)
        if step is None or step.has_all_rows or reduction in (None, "none"):
            return reduce(values, sample_weight, reduction)
        if reduction == "mean_with_sample_weight" and sample_weight is not None:
            divisor = step.mark(step.all_reduced(step.own(tf.reduce_sum(tf.cast(sample_weight, values.dtype)))))
            return tf.math.divide_no_nan(step.own(tf.reduce_sum(values)), divisor)
        loss = reduce(values, sample_weight, reduction)
        return (
            tf.math.multiply_no_nan(loss, step.mark(tf.cast(step.rows > 0, loss.dtype))) if reduction == "sum" else loss
        )

    def apply_mask(sample_weight: Any, mask: Any, dtype: Any, reduction: Any) -> Any:
        step = steps.current(tf)
        if step is None or step.has_all_rows or mask is None or reduction not in MEANS or not step.in_loss:
            return mask_weights(sample_weight, mask, dtype=dtype, reduction=reduction)
        total, valid = tf.cast(tf.size(mask), dtype), tf.reduce_sum(tf.cast(mask, dtype))
        total, valid = tf.unstack(step.all_reduced(step.own(tf.stack([total, valid]))))
        # In a single process, Keras computes the same weights from the mask of the whole batch.
        weights = tf.where(tf.cast(mask, tf.bool), tf.math.divide_no_nan(total, valid), tf.zeros((), dtype))
        if sample_weight is None:
            return weights
        weights, sample_weight = losses.squeeze_or_expand_to_same_rank(weights, tf.cast(sample_weight, dtype))
        return weights * sample_weight

    replace(losses, "reduce_values", reduce_values)
    replace(losses, "apply_mask", apply_mask)


def compute_from_all_rows(trainer: Any, load: Any) -> None:
    """Patch losses: if a loss function returns a single number, call it again with the rows of all replicas."""
    steps, replace = load("task/patches/keras/step"), load("task/patches/hook").replace
    losses, tf = trainer.loss_module, trainer.tf
    call, reduce = losses.Loss.__call__, losses.reduce_weighted_values

    def reduce_weighted_values(values: Any, *args: Any, **kwargs: Any) -> Any:
        step = steps.current(tf)
        computes = step is not None and step.in_loss and not step.has_all_rows
        if computes and not has_rows(values, trainer.tree.flatten(step.in_loss[-1])):
            raise OneNumber
        return reduce(values, *args, **kwargs)

    def __call__(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        step = steps.current(tf)
        if step is None or step.has_all_rows:
            return call(self, y_true, y_pred, sample_weight)

        with step.computing_loss(y_pred):
            try:
                return call(self, y_true, y_pred, sample_weight)
            except OneNumber:
                pass
        return part_of_all(trainer, step, partial(call, self), y_true, y_pred, sample_weight)

    replace(losses.Loss, "__call__", __call__)
    replace(losses, "reduce_weighted_values", reduce_weighted_values)


def wrap_calls(trainer: Any, load: Any) -> None:
    """Patch `compile`: if a loss class's own `__call__` returns one number, call it again with all replicas' rows."""
    steps, replace = load("task/patches/keras/step"), load("task/patches/hook").replace
    tf, kind = trainer.tf, compiled()
    base, build = trainer.loss_module.Loss, kind._build_nested
    plain_call = base.__call__

    def wrapped(loss: Any) -> Any:
        def computed(y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
            value, step = loss(y_true, y_pred, sample_weight), steps.current(tf)
            if step is None or not tf.is_tensor(value) or value.shape.rank != 0 or step.is_part(value):
                return value
            return part_of_all(trainer, step, loss, y_true, y_pred, sample_weight)

        return computed

    def _build_nested(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = len(self._flat_losses)
        build(self, *args, **kwargs)
        for place, each in enumerate(self._flat_losses[before:], before):
            if isinstance(each.loss, base) and type(each.loss).__call__ is not plain_call:
                self._flat_losses[place] = each._replace(loss=wrapped(each.loss))

    replace(kind, "_build_nested", _build_nested)


def compiled() -> Any:
    return sys.modules["keras.src.trainers.compile_utils"].CompileLoss


def part_of_all(trainer: Any, step: Any, loss: Callable[..., Any], *values: Any) -> Any:
    """Compute a loss from the rows of all replicas, and return this replica's part of the loss."""
    tf = trainer.tf
    whole = trainer.tree.map_structure(
        lambda value: None if value is None else step.gathered(tf.convert_to_tensor(value)), values
    )
    with step.all_rows():
        return step.as_part(loss(*whole))


def has_rows(values: Any, predictions: list[Any]) -> bool:
    """Return whether a loss function's result may have one number per row, given the model's predictions."""
    if not values.shape.rank:
        return False
    rows = next((each.shape[0] for each in predictions if each.shape.rank), None)
    return values.shape[0] in (None, rows)


def add_parts(trainer: Any, load: Any) -> None:
    """Patch a model's total loss: treat terms that the program's `compute_loss` adds as means over a replica's rows."""
    steps, replace = load("task/patches/keras/step"), load("task/patches/hook").replace
    tf, base, model = trainer.tf, trainer.base_trainer.Trainer, trainer.TensorFlowTrainer
    total, of_model = base.compute_loss, model._compute_loss

    def compute_loss(self: Any, *args: Any, **kwargs: Any) -> Any:
        loss, step = total(self, *args, **kwargs), steps.current(tf)
        return loss if step is None or loss is None else step.mark(loss)

    def _compute_loss(self: Any, *args: Any, **kwargs: Any) -> Any:
        loss, step = of_model(self, *args, **kwargs), steps.current(tf)
        if step is None or loss is None or not tf.is_tensor(loss) or hasattr(loss, "numpy"):
            return loss
        others = [term for term in terms(loss) if not step.is_part(term)]
        if others:
            load("task/patches/keras/fit").say_once(tf, ADDED_TERM.format(type(self).__name__))
        for term in others:
            loss += tf.cast(step.as_part(term) - term, loss.dtype)
        return loss

    replace(base, "compute_loss", compute_loss)
    replace(model, "_compute_loss", _compute_loss)


def terms(loss: Any) -> Iterator[Any]:
    """Yield the terms of a sum of scalars, except constants, which have no gradient."""
    operation = loss.op
    if operation.type in ("AddV2", "Add", "AddN") and all(each.shape.rank == 0 for each in operation.inputs):
        for each in operation.inputs:
            yield from terms(each)
    elif operation.type != "Const":
        yield loss
