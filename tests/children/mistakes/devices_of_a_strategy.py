"""Passes physical devices, and not names, to a strategy."""

import tensorflow as tf

print(tf.distribute.MirroredStrategy(tf.config.list_physical_devices("CPU")))
