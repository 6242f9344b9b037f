"""Calls the step, and passes its result to run."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
batches = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(tf.ones((32, 4))).batch(8))


def step(batch):
    return tf.reduce_sum(batch)


for batch in batches:
    print(strategy.run(step(batch)))
