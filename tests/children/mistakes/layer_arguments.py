"""Passes an argument of Keras 2 to a layer."""

import tensorflow as tf

tf.keras.layers.LSTM(4, batch_input_shape=(1, 2, 3))
