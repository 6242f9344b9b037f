"""Passes the batch, a tuple, as the arguments of the step."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
data = tf.data.Dataset.from_tensor_slices((tf.ones((64, 4)), tf.ones((64, 1)))).batch(8)


def step(batch):
    x, y = batch
    return tf.reduce_sum(x)


for batch in strategy.experimental_distribute_dataset(data):
    strategy.run(step, args=batch)
