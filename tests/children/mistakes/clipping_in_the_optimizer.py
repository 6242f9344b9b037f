"""Clips gradients in an optimizer of Keras 2, under a strategy that does not support this."""

import tensorflow as tf

strategy = tf.distribute.experimental.CentralStorageStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.legacy.Adam(clipnorm=1.0), "mse")
model.fit(tf.ones((32, 4)), tf.ones((32, 1)))
