"""Layers under the name that they had in Keras 2."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
print(tf.keras.layers.experimental.preprocessing.Rescaling(1.0))
