"""The function for each worker's dataset returns one that the coordinator has made."""

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
dataset = tf.data.Dataset.from_tensor_slices(tf.ones((64, 4))).repeat().batch(8)


def worker_dataset():
    return strategy.distribute_datasets_from_function(lambda context: dataset)


@tf.function
def step(batches):
    return strategy.run(tf.reduce_sum, args=(next(batches),))


batches = iter(coordinator.create_per_worker_dataset(worker_dataset))
coordinator.schedule(step, args=(batches,))
coordinator.join()
