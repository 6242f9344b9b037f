"""Calls a method of datasets on a distributed one."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
data = tf.data.Dataset.from_tensor_slices((tf.ones((64, 4)), tf.ones((64, 1)))).batch(8)
dist = strategy.experimental_distribute_dataset(data)
for batch in dist.take(2):
    print(batch)
