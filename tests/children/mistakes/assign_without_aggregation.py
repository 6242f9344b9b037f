"""Assigns to a variable in a replica, without an aggregation."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
with strategy.scope():
    steps = tf.Variable(0, dtype=tf.int64)
strategy.run(lambda: steps.assign_add(1))
