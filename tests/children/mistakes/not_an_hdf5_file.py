"""Loads weights from a file that only has the name of an HDF5 file."""

from pathlib import Path

import tensorflow as tf

Path("model.weights.h5").write_text("version https://git-lfs.github.com/spec/v1\n")
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
model.load_weights("model.weights.h5")
