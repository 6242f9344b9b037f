"""Calls run inside of run."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
strategy.run(lambda: strategy.run(lambda: tf.ones([4])))
