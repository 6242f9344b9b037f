"""Passes an array where a dataset is wanted."""

import numpy as np
import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

coordinator.create_per_worker_dataset(np.ones((8, 4)))
