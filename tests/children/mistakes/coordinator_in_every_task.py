"""Workers and parameter servers run the coordinator's code."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weight = tf.Variable(0.0)


@tf.function
def step():
    return weight.assign_add(1.0)


coordinator.schedule(step)
coordinator.join()
