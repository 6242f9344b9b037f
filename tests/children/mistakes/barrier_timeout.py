"""Worker 1 does not come to a barrier of the coordination service."""

import tensorflow as tf
from tensorflow.python.eager import context

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
if index == 0:
    context.context().wait_at_barrier("data is ready", 3000)
for _ in range(20):
    strategy.reduce("SUM", tf.ones([4]), axis=None)
