"""A step uses a variable that was made outside the strategy's scope."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
weight = tf.Variable(0.0)


@tf.function
def step():
    return strategy.run(lambda: weight.assign_add(1.0))


coordinator.schedule(step)
coordinator.join()
