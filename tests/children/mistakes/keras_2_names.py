"""Metrics as functions, as Keras 2 has them."""

import tensorflow as tf

print(tf.keras.metrics.mean_squared_error([1.0], [2.0]))
