"""Loads a saved model outside the strategy's scope, and compiles it with a metric made inside."""

import tensorflow as tf

with tf.distribute.MirroredStrategy().scope():
    metric = tf.keras.metrics.MeanAbsoluteError()
tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)]).save("saved.keras")
model = tf.keras.models.load_model("saved.keras", compile=False)
model.compile("adam", "mse", metrics=[metric])
