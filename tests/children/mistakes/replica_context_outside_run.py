"""Asks for the replica context outside of run."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
with strategy.scope():
    tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([4]))
