"""A model made outside the strategy's scope and compiled inside, in Keras 2."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
with strategy.scope():
    model.compile("sgd", "mse")
