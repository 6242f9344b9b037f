"""A dataset function takes an argument that the coordinator does not pass."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


def dataset(context):
    return tf.data.Dataset.range(64).repeat().batch(8)


coordinator.create_per_worker_dataset(dataset)
