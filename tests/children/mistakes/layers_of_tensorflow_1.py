"""Layers of TensorFlow 1, which Keras 2 implements."""

import tensorflow as tf

print(tf.compat.v1.layers.dense(tf.ones([1, 4]), 2))
