"""A step returns the iterator that it was given."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


@tf.function
def step(batches):
    next(batches)
    return batches


batches = iter(coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.range(64).repeat().batch(8)))
print(coordinator.schedule(step, args=(batches,)).fetch())
