"""Enters the method instead of the scope."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
with strategy.scope:
    v = tf.Variable(1.0)
