"""A step takes batches of an iterator that the coordinator has."""

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
batches = iter(tf.data.Dataset.range(64).repeat())


@tf.function
def step():
    return next(batches)


print(coordinator.schedule(step).fetch())
