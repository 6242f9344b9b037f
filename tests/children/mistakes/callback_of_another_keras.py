"""Gives a model of Keras 3 a callback of Keras 2."""

import tensorflow as tf
import tf_keras

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(tf.ones((8, 4)), tf.ones((8, 1)), callbacks=[tf_keras.callbacks.TensorBoard("logs")])
