"""A coordinator schedules more steps than its workers have batches."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


@tf.function
def per_worker():
    return strategy.distribute_datasets_from_function(lambda context: tf.data.Dataset.range(64).batch(8))


@tf.function
def step(batches):
    return strategy.run(tf.reduce_sum, args=(next(batches),))


batches = iter(coordinator.create_per_worker_dataset(per_worker))
for _ in range(40):
    coordinator.schedule(step, args=(batches,))
coordinator.join()
