"""Was written for a TPU."""

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TPUClusterResolver()
strategy = tf.distribute.TPUStrategy(resolver)
