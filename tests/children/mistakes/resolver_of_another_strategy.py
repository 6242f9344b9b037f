"""Asks a MirroredStrategy which task this is."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
print(strategy.cluster_resolver.task_id)
