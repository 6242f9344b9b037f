"""The function of the workers returns a dataset that the coordinator has made."""

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
data = tf.data.Dataset.from_tensor_slices(tf.ones((32, 4))).batch(8).repeat()
batches = iter(coordinator.create_per_worker_dataset(lambda: data))


@tf.function
def step(batches):
    return tf.reduce_sum(next(batches))


coordinator.schedule(step, args=(batches,))
coordinator.join()
