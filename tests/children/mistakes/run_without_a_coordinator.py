"""A coordinator calls strategy.run, and has made no ClusterCoordinator."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
with strategy.scope():
    weight = tf.Variable(0.0)

strategy.run(lambda: weight.assign_add(1.0))
