"""A tensor that does not fit into memory."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
print(tf.ones((10_000_000, 1_000_000)))
