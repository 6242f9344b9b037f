"""Runs steps in the coordinator."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
print(strategy.run(lambda: tf.constant(1.0)))
