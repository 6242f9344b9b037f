"""Trains on rows of which nobody says how long they are."""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf


def rows() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield four rows."""
    for _ in range(4):
        yield np.ones(3, np.float32), np.ones(1, np.float32)


strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(tf.data.Dataset.from_generator(rows, (tf.float32, tf.float32)).batch(4))
