"""Raises a group of errors that come out of graphs, AutoGraph and Keras's `fit`, through what clusterkit patches."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf


class Model(keras.Model):
    """A model whose step fails while it is traced, and whose layer while it runs."""

    def __init__(self, traced: bool) -> None:
        super().__init__()
        self.dense, self.traced = keras.layers.Dense(3), traced

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Reshape to what does not fit, unless the step fails before that."""
        wrong = tf.reshape(self.dense(inputs), (tf.shape(inputs)[0] - 1, 3))
        return self.missing(wrong) if self.traced else wrong


def fit(traced: bool) -> None:
    """Train one of them."""
    model = Model(traced)
    model.compile(keras.optimizers.SGD(), "mse")
    model.fit(np.ones((8, 3)), np.ones((8, 3)), verbose=0)


@tf.function
def reshape(rows: tf.Tensor) -> tf.Tensor:
    """A node of a graph that fails."""
    return tf.reshape(tf.ones((rows, 4)), (rows, 3))


@tf.function
def convert(value: tf.Tensor) -> tf.Tensor:
    """An error while AutoGraph traces."""
    if tf.reduce_sum(value) > 0:
        value = value["key"]
    return value


def caught(function: Callable[[], object]) -> Exception:
    """The error of a function that fails."""
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError(function)


FAILING = (lambda: reshape(tf.constant(2)), lambda: convert(tf.ones(3)), lambda: fit(True), lambda: fit(False))
raise ExceptionGroup("all of them", [caught(function) for function in FAILING])
