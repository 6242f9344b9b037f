"""Raises a group of errors that come out of graphs, AutoGraph and Keras's `fit`, through what clusterkit patches."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf


class Model(keras.Model):
    """A model whose step fails while it is traced."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(3)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """One layer."""
        return self.dense(inputs)

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Take a tensor for a dictionary."""
        return {"loss": self(data[0])["missing"]}


def fit(model: keras.Model, loss: str) -> None:
    """Train on labels that are no classes of the model."""
    model.compile(keras.optimizers.SGD(), loss)
    model.fit(np.ones((8, 3)), np.full(8, 7), verbose=0)


def classify() -> None:
    """An error in a node of Keras's, while it runs."""
    fit(keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)]), "sparse_categorical_crossentropy")


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


FAILING = (lambda: reshape(tf.constant(2)), lambda: convert(tf.ones(3)), lambda: fit(Model(), "mse"), classify)
raise ExceptionGroup("all of them", [caught(function) for function in FAILING])
