"""A step is given the per-worker dataset instead of its iterator."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


@tf.function
def step(batches):
    return next(batches)


dataset = coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.range(64).repeat().batch(8))
coordinator.schedule(step, args=(dataset,))
coordinator.join()
