"""The coordinator schedules a function that is not a tf.function."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


def step():
    return tf.add(1, 1)


coordinator.schedule(step)
coordinator.join()
