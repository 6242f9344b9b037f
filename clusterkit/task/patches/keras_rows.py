"""Patches Keras 3 on several workers to weigh all rows of a batch alike, however they are divided among replicas.

Loaded by path: standard library only. Keras divides each replica's mean loss by the number of replicas, which is right
only if all have the same number of rows. At the end of the data they do not, and some have none: batch normalization
then computes NaN for all of them, and convolutions an invalid shape (oneDNN's). With the patch each replica weighs its
share of the rows, and one without rows computes a row of zeros, whose results are discarded.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from types import ModuleType
from typing import Any

NOW = threading.local()  # `share`: the fraction of the batch's rows that this replica has, while it computes a step
STATISTICS = ("moving_mean", "moving_variance", "moving_stddev", "renorm_mean", "renorm_stddev")


def due(trainer: Any, load: Callable[[str], ModuleType]) -> list[Callable[[Any], None]]:
    """Return the fixes that this version needs; none for a version with other internals."""
    try:
        scaled = trainer.loss_module.scale_loss_for_distribution.__code__.co_names
        updated = optimizer()._backend_update_step.__code__.co_names
        expected = trainer.TensorFlowTrainer._make_function, normalization()._moments, optimizer()._clip_gradients
    except (AttributeError, KeyError):
        return []
    if "num_replicas_in_sync" not in scaled or "_all_reduce_sum_gradients" not in updated:
        return []
    assert all(map(callable, expected))
    fixes = weigh_losses, give_rows, weigh_gradients, share_statistics
    return [partial(fix, fit=load("task/patches/keras_fit")) for fix in fixes]


def optimizer() -> Any:
    """Return the base class of Keras's optimizers for TensorFlow."""
    return sys.modules["keras.src.backend.tensorflow.optimizer"].TFOptimizer


def normalization() -> Any:
    """Return the class of the layers that keep statistics of batches."""
    return sys.modules["keras.src.layers.normalization.batch_normalization"].BatchNormalization


def share() -> Any:
    """Return this replica's share of the rows, a scalar tensor; None outside a step."""
    return getattr(NOW, "share", None)


@contextmanager
def counted(part: Any) -> Iterator[None]:
    """Set this replica's share of the rows."""
    NOW.share = part
    try:
        yield
    finally:
        del NOW.share


def weigh_losses(trainer: Any, fit: Any) -> None:
    """Patch the scaling of mean losses: by the replica's share, and not by the number of replicas."""
    losses, tf = trainer.loss_module, trainer.tf
    scale, unscale = losses.scale_loss_for_distribution, losses.unscale_loss_for_distribution

    @wraps(scale)
    def scale_loss_for_distribution(value: Any) -> Any:
        return scale(value) if share() is None else value * tf.cast(share(), value.dtype)

    @wraps(unscale)
    def unscale_loss_for_distribution(value: Any) -> Any:
        return unscale(value) if share() is None else tf.math.divide_no_nan(value, tf.cast(share(), value.dtype))

    losses.scale_loss_for_distribution = fit.unconverted(scale_loss_for_distribution)
    # Only the trainer's total loss, which it weighs by rows when it logs it, is unscaled by the share. The losses of
    # several outputs are not weighed: unscaled by the number of replicas, their plain mean is the batch's loss.
    trainer.loss_module = ModuleType(losses.__name__)
    vars(trainer.loss_module).update(vars(losses))
    trainer.loss_module.unscale_loss_for_distribution = fit.unconverted(unscale_loss_for_distribution)


def give_rows(trainer: Any, fit: Any) -> None:
    """Patch the step functions to count their rows, and to run on one row of zeros if there is none."""
    model, tf = trainer.TensorFlowTrainer, trainer.tf
    make, predict = model._make_function, model.predict_step

    @wraps(make)
    def _make_function(self: Any, step_function: Any) -> Any:
        if fit.is_multi_worker(tf, self.distribute_strategy):
            step_function = fit.unconverted(with_rows(trainer, self, step_function))
        return make(self, step_function)

    @wraps(predict)
    def predict_step(self: Any, data: Any) -> Any:
        rows = rows_of(trainer, data) if fit.is_multi_worker(tf, tf.distribute.get_strategy()) else None
        if rows is None:
            return predict(self, data)
        outputs = predict(self, one_at_least(trainer, data, rows))
        return trainer.tree.map_structure(lambda value: value[: tf.where(rows > 0, tf.shape(value)[0], 0)], outputs)

    model._make_function, model.predict_step = fit.unconverted(_make_function), fit.unconverted(predict_step)


def with_rows(trainer: Any, model: Any, step_function: Any) -> Any:
    """Wrap a step: it knows its share of the rows of all replicas, and gets at least one row."""
    tf = trainer.tf

    @wraps(step_function)
    def step(data: Any) -> Any:
        replica, rows = tf.distribute.get_replica_context(), rows_of(trainer, data)
        if replica is None or rows is None:
            return step_function(data)
        kept = [variable for metric in weighed(model) for variable in metric.variables]
        before = [tf.identity(variable.value) for variable in kept]
        own = tf.cast(rows, tf.float32)
        with counted(tf.math.divide_no_nan(own, replica.all_reduce("SUM", own))):
            outputs = step_function(one_at_least(trainer, data, rows))
        for variable, value in zip(kept, before, strict=True):
            variable.value.assign(tf.where(rows > 0, tf.identity(variable.value), value))
        return outputs

    return step


def weighed(model: Any) -> list[Any]:
    """Return the metrics that are weighed by rows, which have to ignore the row of zeros.

    The losses of several outputs are weighed by batches, and a replica without rows adds nothing to them.
    """
    batches = getattr(getattr(model, "_compile_loss", None), "metrics", ())
    return [metric for metric in model.metrics if not any(metric is other for other in batches)]


def rows_of(trainer: Any, data: Any) -> Any:
    """Return how many rows a replica has, which for Keras are those of the first input; None if it can't have rows."""
    values = [value for value in trainer.tree.flatten(data) if value is not None]
    shape = trainer.tf.TensorShape(getattr(values[0], "shape", ()) if values else ())
    return trainer.tf.shape(values[0])[0] if shape.rank else None


def one_at_least(trainer: Any, data: Any, rows: Any) -> Any:
    """Return the data, with a row of zeros if it has none. Sparse and ragged tensors are not changed."""
    tf = trainer.tf

    def padded(value: Any) -> Any:
        if not isinstance(value, tf.Tensor) or value.shape.rank in (None, 0):
            return value
        shape = tf.concat([[tf.cast(rows == 0, tf.int32)], tf.shape(value)[1:]], 0)
        longer = tf.concat([value, tf.zeros(shape, value.dtype)], 0)
        longer.set_shape([None, *value.shape[1:]])
        return longer

    return trainer.tree.map_structure(padded, data)


def weigh_gradients(trainer: Any, fit: Any) -> None:
    """Patch the optimizers to ignore a replica without rows, and to clip the sum of the gradients, not its parts."""
    tf, kind = trainer.tf, optimizer()
    add, clip = kind._all_reduce_sum_gradients, kind._clip_gradients

    @wraps(add)
    def _all_reduce_sum_gradients(self: Any, grads_and_vars: Any) -> Any:
        if share() is not None:
            there = tf.cast(share() > 0, tf.float32)
            grads_and_vars = [(times(tf, grad, there), variable) for grad, variable in grads_and_vars]
        return add(self, grads_and_vars)

    @wraps(clip)
    def _clip_gradients(self: Any, grads: Any) -> Any:
        if share() is None or not (self.clipnorm or self.global_clipnorm or self.clipvalue):
            return clip(self, grads)
        there = tf.cast(share() > 0, tf.float32)
        own = [times(tf, grad, there) for grad in grads if grad is not None]
        sums = iter(tf.distribute.get_replica_context().all_reduce("SUM", own))
        clipped = clip(self, [None if grad is None else next(sums) for grad in grads])
        # Keras now adds these up over the replicas, and all have the same: so each contributes its share.
        return [times(tf, grad, share()) for grad in clipped]

    kind._all_reduce_sum_gradients = fit.unconverted(_all_reduce_sum_gradients)
    kind._clip_gradients = fit.unconverted(_clip_gradients)


def times(tf: Any, grad: Any, factor: Any) -> Any:
    """Multiply a gradient by a number; 0 times NaN is 0."""
    if grad is None:
        return None
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(times(tf, grad.values, factor), grad.indices, grad.dense_shape)
    return tf.math.multiply_no_nan(grad, tf.cast(factor, grad.dtype))


def share_statistics(trainer: Any, fit: Any) -> None:
    """Patch batch normalization to keep the same statistics in all replicas: their mean, weighed by rows."""
    layer, tf = normalization(), trainer.tf
    moments, call = layer._moments, layer.call

    @wraps(moments)
    def _moments(self: Any, inputs: Any, mask: Any) -> Any:
        if share() is not None and self.synchronized and mask is None:  # without the row of zeros
            inputs = inputs[: tf.where(share() > 0, tf.shape(inputs)[0], 0)]
        return moments(self, inputs, mask)

    @wraps(call)
    def with_statistics(self: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        outputs = call(self, inputs, training=training, mask=mask)
        apart = not self.synchronized or mask is not None  # Keras then does not synchronize them
        if share() is not None and training and self.trainable and apart:
            average(tf, [getattr(self, name) for name in STATISTICS if hasattr(self, name)])
        return outputs

    layer._moments, layer.call = fit.unconverted(_moments), fit.unconverted(with_statistics)


def average(tf: Any, variables: list[Any]) -> None:
    """Set each variable to its mean over the replicas, weighed by their shares."""
    own = [variable for variable in variables if variable.aggregation == "none"]
    parts = [variable.value * tf.cast(share(), variable.value.dtype) for variable in own]
    if own:
        for variable, mean in zip(own, tf.distribute.get_replica_context().all_reduce("SUM", parts), strict=True):
            variable.value.assign(mean)
