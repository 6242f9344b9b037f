"""Patches Keras 3's optimizers on several workers to clip, check and apply the summed gradients of all replicas."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

UNSCALED = (
    "{}: these gradients come from a loss that the program computes without a Keras loss. They are added up over "
    "all workers. If the loss is a mean over rows, divide it by strategy.num_replicas_in_sync; a sum over rows, or one "
    "that is divided by the global batch size, is right."
)


def fixes(trainer: Any) -> tuple[Callable[[Any, Any], None], ...]:
    """Return this file's patches. Raises AttributeError, KeyError or AssertionError if Keras's internals differ."""
    kind, scaled = optimizer(), loss_scaled()
    expected = kind._all_reduce_sum_gradients, kind._clip_gradients, kind._overwrite_model_variables_with_average_value
    assert all(map(callable, (*expected, scaled.check_finite)))
    return add_gradients, clip_sums, agree_on_overflow, average_in_place, accumulate, notice_unscaled


def optimizer() -> Any:
    return sys.modules["keras.src.backend.tensorflow.optimizer"].TFOptimizer


def loss_scaled() -> Any:
    """Return the class of optimizers for mixed precision, which skip steps whose gradients overflow."""
    return sys.modules["keras.src.optimizers.loss_scale_optimizer"].LossScaleOptimizer


def add_gradients(trainer: Any, load: Any) -> None:
    """Patch the summing of gradients: a replica without rows adds zeros, and `_parts` converts sparse gradients."""
    tf, kind, steps = trainer.tf, optimizer(), load("task/patches/keras/step")
    add = kind._all_reduce_sum_gradients

    def _all_reduce_sum_gradients(self: Any, grads_and_vars: Any) -> Any:
        step = steps.current(tf)
        if step is None:
            return add(self, grads_and_vars)
        if step.has_sums:
            step.has_sums = False
            return list(grads_and_vars)
        grads, variables = zip(*grads_and_vars, strict=True)
        parts, whole = _parts(tf, step, grads)
        sums = iter(add(self, list(zip(parts, variables, strict=True))))
        return [(make(next(sums)[0]), variable) for make, variable in zip(whole, variables, strict=True)]

    load("task/patches/hook").replace(kind, "_all_reduce_sum_gradients", _all_reduce_sum_gradients)


def notice_unscaled(trainer: Any, load: Any) -> None:
    """Patch the optimizers to print a notice if the gradients that they add up do not come from a Keras loss."""
    tf, kind, steps = trainer.tf, optimizer(), load("task/patches/keras/step")

    def warn(self: Any, grads: Any, trainable_variables: Any = None) -> None:
        step = steps.current(tf)
        if step is None or step.is_eager or any(step.is_part(_dense(tf, grad)) for grad in grads if grad is not None):
            return
        _, place = load("task/patches/refusals").library_call(sys._getframe(1))
        load("task/patches/keras/fit").say_once(tf, UNSCALED.format(place.rstrip(",")))

    load("task/patches/hook").before(kind, "apply", warn)


def clip_sums(trainer: Any, load: Any) -> None:
    """Patch the clipping of gradients to clip the sum over the replicas, not each replica's part."""
    tf, kind, steps = trainer.tf, optimizer(), load("task/patches/keras/step")
    clip = kind._clip_gradients

    def _clip_gradients(self: Any, grads: Any) -> Any:
        step = steps.current(tf)
        if step is None or not (self.clipnorm or self.global_clipnorm or self.clipvalue):
            return clip(self, grads)
        parts, whole = _parts(tf, step, [grad for grad in grads if grad is not None])
        sums = tf.distribute.get_replica_context().all_reduce("SUM", parts)
        each = iter([make(one) for make, one in zip(whole, sums, strict=True)])
        step.has_sums = True
        return clip(self, [None if grad is None else next(each) for grad in grads])

    load("task/patches/hook").replace(kind, "_clip_gradients", _clip_gradients)


def agree_on_overflow(trainer: Any, load: Any) -> None:
    """Patch the check for overflowing gradients: if they overflow in one replica, all replicas skip the step."""
    tf, kind, steps = trainer.tf, loss_scaled(), load("task/patches/keras/step")
    check = kind.check_finite

    def check_finite(self: Any, grads: Any) -> Any:
        step, finite = steps.current(tf), check(self, grads)
        if step is None:
            return finite
        overflows = tf.logical_and(step.rows > 0, tf.logical_not(finite))
        sum_of_all = load("task/patches/keras/rows").sum_of_all
        return tf.equal(sum_of_all(tf, tf.cast(overflows, tf.int32)), 0)

    load("task/patches/hook").replace(kind, "check_finite", check_finite)


def average_in_place(trainer: Any, load: Any) -> None:
    """Patch `ema_overwrite_frequency`: each replica overwrites its own copy of a variable with the moving average."""
    tf, kind, steps = trainer.tf, optimizer(), load("task/patches/keras/step")
    overwrite = kind._overwrite_model_variables_with_average_value

    def _overwrite_model_variables_with_average_value(self: Any, trainable_variables: Any) -> Any:
        if (step := steps.current(tf)) is None:
            return overwrite(self, trainable_variables)
        for variable, average in zip(trainable_variables, self._model_variables_moving_average, strict=True):
            step.copy_of(variable).assign(step.copy_of(average))
        return None

    load("task/patches/hook").replace(kind, overwrite.__name__, _overwrite_model_variables_with_average_value)


def accumulate(trainer: Any, load: Any) -> None:
    """Patch `gradient_accumulation_steps`: all replicas decide together whether a step updates the variables."""
    tf, kind, steps = trainer.tf, optimizer(), load("task/patches/keras/step")
    apply = kind._backend_apply_gradients

    def _backend_apply_gradients(self: Any, grads: Any, trainable_variables: Any) -> Any:
        step, count = steps.current(tf), self.gradient_accumulation_steps
        if step is None or not count:
            return apply(self, grads, trainable_variables)
        grads = [_own(tf, step, grad) for grad in grads]
        step.accumulates = True
        totals = [self._accumulated_gradients[self._get_variable_index(variable)] for variable in trainable_variables]

        def update(*grads: Any) -> None:
            sums = [(grad + step.copy_of(sum_before)) / count for grad, sum_before in zip(grads, totals, strict=True)]
            self._apply_weight_decay(trainable_variables)
            self._backend_update_step(self._clip_gradients(sums), trainable_variables, self.learning_rate)
            for each in totals:
                step.copy_of(each).assign(tf.zeros_like(step.copy_of(each)))

        def keep(*grads: Any) -> None:
            for each, grad in zip(totals, grads, strict=True):
                step.copy_of(each).assign_add(grad)

        def choose(strategy: Any, *grads: Any) -> None:
            every = strategy.extended.call_for_each_replica
            last = tf.equal((tf.convert_to_tensor(self._iterations.value) + 1) % count, 0)
            tf.cond(last, lambda: every(update, grads), lambda: every(keep, grads))

        tf.distribute.get_replica_context().merge_call(choose, args=tuple(grads))
        if self.use_ema:
            self._update_model_variables_moving_average(self._trainable_variables)
        if self.use_ema and self.ema_overwrite_frequency:
            due = tf.equal((self.iterations + 1) % self.ema_overwrite_frequency, 0)
            overwrite = partial(self._overwrite_model_variables_with_average_value, self._trainable_variables)
            tf.cond(due, overwrite, lambda: None)
        return None

    load("task/patches/hook").replace(kind, "_backend_apply_gradients", _backend_apply_gradients)


def _dense(tf: Any, grad: Any) -> Any:
    return grad.values if isinstance(grad, tf.IndexedSlices) else grad


def _parts(tf: Any, step: Any, grads: Any) -> tuple[list[Any], list[Callable[[Any], Any]]]:
    """Return this replica's parts of the gradients, and functions that turn the sums over all replicas into gradients.

    TensorFlow sums sparse gradients by concatenating the slices of all replicas, so an index may occur once per
    replica. A single process has each index only once in two cases: if the indices do not depend on the rows (such as
    positions), and if they come from `tf.unique`. In these cases, slices with the same index are added up here, since
    an optimizer that squares them separately would compute a different update.
    """
    parts, whole = [], list[Callable[[Any], Any]]()
    for grad in (_own(tf, step, grad) for grad in grads):
        slices = isinstance(grad, tf.IndexedSlices)
        if slices and not step.is_eager and not step.is_of_rows(grad.indices):
            parts.append(grad.values)
            whole.append(partial(_slices, tf, grad))
        elif slices and not step.is_eager and step.is_unique(grad.indices):
            parts.append(grad)
            whole.append(partial(_without_duplicates, tf))
        else:
            parts.append(grad)
            whole.append(lambda total: total)
    return parts, whole


def _without_duplicates(tf: Any, grad: Any) -> Any:
    indices, places = tf.unique(grad.indices)
    return tf.IndexedSlices(
        tf.math.unsorted_segment_sum(grad.values, places, tf.size(indices)), indices, grad.dense_shape
    )


def _slices(tf: Any, like: Any, values: Any) -> Any:
    return tf.IndexedSlices(values, like.indices, like.dense_shape)


def _own(tf: Any, step: Any, grad: Any) -> Any:
    """Return the gradient, or zeros in a replica without rows. Return a gradient accumulated over steps unchanged."""
    if step.accumulates:
        return grad
    return _times(tf, grad, step.rows > 0)


def _times(tf: Any, grad: Any, factor: Any) -> Any:
    """Multiply a gradient by a factor. With the factor 0, even NaN becomes 0."""
    if grad is None:
        return None
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(_times(tf, grad.values, factor), grad.indices, grad.dense_shape)
    return tf.math.multiply_no_nan(grad, tf.cast(factor, grad.dtype))
