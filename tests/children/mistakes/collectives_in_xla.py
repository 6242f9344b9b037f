"""Compiles a function that reduces over the workers."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
data = tf.data.Dataset.from_tensor_slices((tf.ones((64, 4)), tf.ones((64, 1)))).batch(8)


@tf.function(jit_compile=True)
def step(x, y):
    return strategy.reduce("SUM", strategy.run(lambda x, y: tf.reduce_sum(x), args=(x, y)), axis=None)


for x, y in strategy.experimental_distribute_dataset(data):
    print(step(x, y))
