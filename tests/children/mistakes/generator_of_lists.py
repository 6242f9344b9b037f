"""A generator that yields the inputs of a model as a list."""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()


def batches():
    """Yields batches without end."""
    while True:
        yield [np.ones((8, 2), "float32"), np.ones((8, 2), "float32")], np.ones((8, 1), "float32")


with strategy.scope():
    inputs = [tf.keras.Input((2,)), tf.keras.Input((2,))]
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(tf.keras.layers.Concatenate()(inputs)))
    model.compile("sgd", "mse")
model.fit(batches(), steps_per_epoch=4)
