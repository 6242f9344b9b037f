"""Reads an HDF5 file as a checkpoint of TensorFlow."""

import tensorflow as tf

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
model.save_weights("model.weights.h5")
tf.train.Checkpoint(model=model).read("model.weights.h5")
