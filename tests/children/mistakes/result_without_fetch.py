"""A coordinator uses what a step returns as a number."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


@tf.function
def step():
    return tf.add(1.0, 1.0)


print(float(coordinator.schedule(step)))
