"""A step takes the first row of its batch, and the last batch has too few rows for all replicas."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
batches = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(tf.ones((9, 4))).batch(8))


@tf.function
def step(batch):
    return batch[0]


for batch in batches:
    strategy.run(step, args=(batch,))
