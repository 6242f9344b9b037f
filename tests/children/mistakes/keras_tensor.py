"""Calls a function of TensorFlow on the input of a functional model."""

import tensorflow as tf

x = tf.keras.Input((4,))
tf.keras.Model(x, tf.reduce_sum(x, axis=1))
