"""Worker 0 alone reads a mean of all workers, then all add up other numbers."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
if index == 0:
    print("loss", strategy.reduce("MEAN", tf.constant(1.0), axis=None))
print("rows", strategy.reduce("SUM", tf.constant(4), axis=None))
