"""Trains with Keras 3 after eager execution was switched off."""

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(tf.data.Dataset.from_tensors((tf.ones((8, 4)), tf.ones((8, 1)))))
