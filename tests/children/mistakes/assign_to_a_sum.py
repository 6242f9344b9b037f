"""Assigns to a variable that is a sum of all replicas, outside of run."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
with strategy.scope():
    count = tf.Variable(0.0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.SUM)
    count.assign_add(1.0)
