"""Partitions variables along their columns."""

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=lambda shape, dtype, axis=0: [1, 2])
with strategy.scope():
    weight = tf.Variable(tf.ones((4, 4)))
