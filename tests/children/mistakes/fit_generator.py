"""Calls fit_generator, which Keras had before fit took generators."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit_generator(((tf.ones((8, 4)), tf.ones((8, 1))) for _ in range(8)), steps_per_epoch=8)
