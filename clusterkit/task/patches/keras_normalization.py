"""Patches batch normalization of Keras 3 on several workers to keep the same statistics in all replicas.

Loaded by path: standard library only. Keras lets every replica keep statistics of its own rows, and TensorFlow saves
the first replica's. With the patch all keep their mean, weighed by rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

STATISTICS = ("moving_mean", "moving_variance", "moving_stddev", "renorm_mean", "renorm_stddev")


def fixes(trainer: Any, load: Callable[[str], ModuleType]) -> list[Callable[[Any], None]]:
    """Return the patches. Raises AttributeError or KeyError for a Keras with other internals."""
    assert callable(normalization()._moments)
    return [partial(share_statistics, steps=load("task/patches/keras_step"), replace=load("task/patches/hook").replace)]


def normalization() -> Any:
    """Return the class of the layers that keep statistics of batches."""
    return sys.modules["keras.src.layers.normalization.batch_normalization"].BatchNormalization


def share_statistics(trainer: Any, steps: Any, replace: Callable[[Any, str, Callable[..., Any]], None]) -> None:
    """Patch the layer: moments without the row of a replica that has none, and shared statistics."""
    layer, tf = normalization(), trainer.tf
    moments, call = layer._moments, layer.call

    def _moments(self: Any, inputs: Any, mask: Any) -> Any:
        step = steps.current(tf)
        if step is not None and self.synchronized and mask is None:
            inputs = inputs[: tf.where(step.rows > 0, tf.shape(inputs)[0], 0)]
        return moments(self, inputs, mask)

    def with_statistics(self: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        outputs, step = call(self, inputs, training=training, mask=mask), steps.current(tf)
        apart = not self.synchronized or mask is not None  # Keras then does not synchronize them
        if step is not None and training and self.trainable and apart:
            average(step, [getattr(self, name) for name in STATISTICS if hasattr(self, name)])
        return outputs

    replace(layer, "_moments", _moments)
    replace(layer, "call", with_statistics)


def average(step: Any, variables: list[Any]) -> None:
    """Set each variable to its mean over the replicas, weighed by their rows."""
    tf = step.tf
    own = [variable for variable in variables if variable.aggregation == "none"]
    parts = [tf.math.multiply_no_nan(each.value, tf.cast(step.share, each.value.dtype)) for each in own]
    if own:
        for variable, mean in zip(own, tf.distribute.get_replica_context().all_reduce("SUM", parts), strict=True):
            variable.value.assign(mean)
