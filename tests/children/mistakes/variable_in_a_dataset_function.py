"""Makes a variable in the function that makes the workers' datasets."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


def dataset_function():
    scale = tf.Variable(2.0)
    return tf.data.Dataset.range(64).map(lambda row: tf.cast(row, tf.float32) * scale).batch(8)


coordinator.create_per_worker_dataset(dataset_function)
coordinator.join()
