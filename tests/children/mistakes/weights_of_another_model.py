"""Loads weights that a model with other layers has saved."""

import tensorflow as tf

layers = tf.keras.layers
tf.keras.Sequential([tf.keras.Input((4,)), layers.Dense(1)]).save_weights("model.weights.h5")
tf.keras.Sequential([tf.keras.Input((4,)), layers.BatchNormalization(), layers.Dense(1)]).load_weights(
    "model.weights.h5"
)
