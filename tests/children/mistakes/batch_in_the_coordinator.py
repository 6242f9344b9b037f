"""The coordinator itself takes a batch of a per-worker dataset."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

batches = iter(coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.range(64).repeat().batch(8)))
print(next(batches))
