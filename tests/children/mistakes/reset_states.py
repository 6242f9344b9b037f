"""Resets a metric as in Keras 2."""

import tensorflow as tf

loss = tf.keras.metrics.Mean()
loss.reset_states()
