"""Loads the weights of an earlier training before the optimizer has its variables."""

import tensorflow as tf


def new_model():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


data = tf.data.Dataset.from_tensors((tf.ones((8, 4)), tf.ones((8, 1)))).repeat(3)
model = new_model()
model.fit(data)
model.save_weights("saved.weights.h5")
again = new_model()
again.load_weights("saved.weights.h5")
again.fit(data, epochs=2)
