"""Keras 2's SidecarEvaluator under Keras 3."""

import tensorflow as tf

print(tf.keras.utils.SidecarEvaluator)
