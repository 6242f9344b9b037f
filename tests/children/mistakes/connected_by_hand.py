"""Connects to the cluster before it creates its strategy, which does this itself."""

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
tf.config.experimental_connect_to_cluster(resolver, job_name="worker", task_index=resolver.task_id)
strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
