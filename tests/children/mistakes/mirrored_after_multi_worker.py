"""Makes a MirroredStrategy after the one for several workers."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
other = tf.distribute.MirroredStrategy()
