"""Loads a compiled model from an HDF5 file."""

import tensorflow as tf

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(tf.ones((8, 4)), tf.ones((8, 1)))
model.save("model.h5")
tf.keras.models.load_model("model.h5")
