"""Makes a tensor before its strategy."""

import tensorflow as tf

images = tf.ones((8, 4))
strategy = tf.distribute.MultiWorkerMirroredStrategy()
