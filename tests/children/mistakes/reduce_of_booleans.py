"""Adds up truth values of the workers."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
v = strategy.run(lambda: tf.constant(True))
print(strategy.reduce("SUM", v, axis=None))
