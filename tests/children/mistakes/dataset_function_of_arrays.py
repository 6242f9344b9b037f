"""The function that makes the dataset returns an array."""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id

next(iter(strategy.distribute_datasets_from_function(lambda context: np.ones((8, 4)))))
