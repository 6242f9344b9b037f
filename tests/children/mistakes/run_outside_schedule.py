"""The coordinator calls strategy.run itself."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

with strategy.scope():
    weight = tf.Variable(0.0)

strategy.run(lambda: weight.assign_add(1.0))
