"""Adds up sparse tensors of the workers."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
v = strategy.run(lambda: tf.sparse.from_dense([1.0, 0.0]))
print(strategy.reduce("SUM", v, axis=None))
