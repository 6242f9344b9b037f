"""Gives the strategy a ClusterSpec where a resolver is meant."""

import tensorflow as tf

cluster = tf.train.ClusterSpec({"worker": ["localhost:23451", "localhost:23452"]})
strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster)
