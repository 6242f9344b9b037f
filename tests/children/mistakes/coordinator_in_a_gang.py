"""A coordinator for a strategy without parameter servers."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
tf.distribute.coordinator.ClusterCoordinator(strategy)
