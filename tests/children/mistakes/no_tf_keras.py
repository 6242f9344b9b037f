"""Keras 2 is asked for, but tf_keras is not installed."""

import os
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"
sys.modules["tf_keras"] = None  # as if it were not installed

import tensorflow as tf  # noqa: E402

print(tf.keras.layers.Dense(1))
