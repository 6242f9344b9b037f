"""Passes labels beside a dataset."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
dataset = tf.data.Dataset.from_tensor_slices(tf.ones((64, 4))).batch(8)
model.fit(dataset, tf.ones((64, 1)))
