"""Reads the weights of an optimizer as in Keras 2."""

import tensorflow as tf

optimizer = tf.keras.optimizers.Adam()
print(optimizer.get_weights())
