"""Uses a layer that Keras 3 has under another name."""

import tensorflow as tf

tf.keras.layers.SyncBatchNormalization()
