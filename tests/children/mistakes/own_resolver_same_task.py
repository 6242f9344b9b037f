"""Its own resolver has its own addresses, and the same task in every process."""

import tensorflow as tf

cluster = tf.train.ClusterSpec({"worker": ["localhost:23451", "localhost:23452"]})
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, task_type="worker", task_id=0)
strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
