"""Gives its resolver a cluster, but not which task of it this process is."""

import tensorflow as tf

cluster = tf.train.ClusterSpec({"worker": ["localhost:23451", "localhost:23452"]})
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster)
strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
