"""A step returns a dataset, which the coordinator fetches."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


@tf.function
def step():
    return tf.data.Dataset.range(64)


rows = coordinator.schedule(step)
coordinator.join()
print(rows.fetch())
