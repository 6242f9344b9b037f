"""Clears the session of Keras inside the strategy's scope, as a search for the best model does before each model."""

import tensorflow as tf

with tf.distribute.MirroredStrategy().scope():
    for units in (8, 16):
        tf.keras.backend.clear_session()
        tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(units)])
