"""Passes the strategy to compile, as the first version of TensorFlow 2 allowed."""

import tensorflow as tf

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse", distribute=tf.distribute.MirroredStrategy())
model.fit(tf.ones((8, 4)), tf.ones((8, 1)))
