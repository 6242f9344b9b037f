"""Passes a batch of all replicas to a function whose signature describes tensors."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
data = tf.data.Dataset.from_tensor_slices((tf.ones((64, 4)), tf.ones((64, 1)))).batch(8)


@tf.function(input_signature=[tf.TensorSpec((None, 4)), tf.TensorSpec((None, 1))])
def step(x, y):
    return strategy.run(lambda x, y: tf.reduce_sum(x), args=(x, y))


for x, y in strategy.experimental_distribute_dataset(data):
    step(x, y)
