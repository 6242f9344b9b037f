"""Turns on mixed precision as TensorFlow 2.3 did."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
policy = tf.keras.mixed_precision.experimental.Policy("mixed_float16")
tf.keras.mixed_precision.experimental.set_policy(policy)
