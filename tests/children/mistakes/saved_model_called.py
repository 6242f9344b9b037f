"""Calls a model that tf.saved_model has saved and loaded."""

import tensorflow as tf

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
tf.saved_model.save(model, "./saved")
print(tf.saved_model.load("./saved")(tf.ones([1, 4])))
