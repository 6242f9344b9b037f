"""A scheduled step makes a variable."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


@tf.function
def step():
    return tf.Variable(0.0).assign_add(1.0)


coordinator.schedule(step)
coordinator.join()
