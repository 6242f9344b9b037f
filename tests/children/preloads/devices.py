"""Has TensorFlow look for its devices, which no fork can use."""

import tensorflow as tf

tf.config.list_logical_devices()
