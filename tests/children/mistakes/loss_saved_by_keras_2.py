"""Loads with Keras 3 a compiled model that Keras 2 has saved."""

import tensorflow as tf
import tf_keras

model = tf_keras.Sequential([tf_keras.Input((4,)), tf_keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.save("model.h5")
tf.keras.models.load_model("model.h5")
