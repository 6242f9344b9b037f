"""Reduces by an operation that there is not."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
loss = strategy.run(lambda: tf.constant(1.0))
strategy.reduce("AVG", loss, axis=None)
