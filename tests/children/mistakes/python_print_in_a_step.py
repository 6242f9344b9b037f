"""A step of a coordinator asks a tensor for its value."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


@tf.function
def step():
    return float(tf.add(1.0, 1.0).numpy())


coordinator.schedule(step)
coordinator.join()
