"""Keras 2's DatasetCreator under Keras 3."""

import tensorflow as tf

data = tf.keras.utils.experimental.DatasetCreator(lambda context: tf.data.Dataset.range(8).batch(4))
print(data)
