"""A model of one strategy, compiled in another."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
with tf.distribute.MirroredStrategy().scope():
    model.compile("sgd", "mse")
model.fit(tf.ones((16, 3)), tf.ones((16, 1)))
