"""Makes the iterator of the workers' datasets in a tf.function."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
data = coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.range(64).batch(8).repeat())


@tf.function
def step():
    return next(iter(data))


coordinator.schedule(step)
coordinator.join()
