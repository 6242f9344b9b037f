"""Sets an option of datasets as TensorFlow 2.0 had it."""

import tensorflow as tf

options = tf.data.Options()
options.experimental_distribute.auto_shard = False
