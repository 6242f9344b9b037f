"""Imports TensorFlow's own old copy of Keras."""

import tensorflow as tf
from tensorflow.python.keras import layers, models

strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = tf.data.Dataset.from_tensor_slices((tf.ones((64, 10)), tf.ones((64, 1)))).batch(32)
with strategy.scope():
    model = models.Sequential([layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(data, epochs=1)
