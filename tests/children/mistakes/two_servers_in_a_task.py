"""Starts a server by hand, and then a strategy that starts another one on the same port."""

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
server = tf.distribute.Server(
    resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
)
strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
