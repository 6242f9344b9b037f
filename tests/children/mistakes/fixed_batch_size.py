"""A model with a fixed batch size, of which each of two workers gets a half."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    layers = [tf.keras.Input((5, 4), batch_size=8), tf.keras.layers.LSTM(3, stateful=True), tf.keras.layers.Dense(1)]
    model = tf.keras.Sequential(layers)
    model.compile("sgd", "mse")
model.fit(tf.ones((64, 5, 4)), tf.ones((64, 1)), batch_size=8)
