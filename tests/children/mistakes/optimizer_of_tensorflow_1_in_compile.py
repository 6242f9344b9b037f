"""Compiles a model with an optimizer of TensorFlow 1."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile(tf.compat.v1.train.AdamOptimizer(), "mse")
