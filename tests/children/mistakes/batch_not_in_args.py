"""The step of a replica uses the distributed batch from around it."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(tf.ones((32, 4))).batch(8))


@tf.function
def mean(rows):
    return tf.reduce_mean(rows)


@tf.function
def step(batch):
    return strategy.run(lambda: mean(batch))


for batch in data:
    print(step(batch))
