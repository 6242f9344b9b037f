"""Passes an argument of Keras 2 to a callback."""

import tensorflow as tf

tf.keras.callbacks.ModelCheckpoint("a.keras", period=2)
