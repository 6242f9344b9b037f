"""A coordinator passes what a step returns to another step."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


@tf.function
def step(value):
    return tf.add(value, 1.0)


coordinator.schedule(step, args=(coordinator.schedule(step, args=(1.0,)),))
coordinator.join()
