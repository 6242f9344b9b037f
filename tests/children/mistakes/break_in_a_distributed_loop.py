"""A tf.function loops over a distributed dataset, and leaves the loop early."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
batches = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(tf.ones((32, 4))).batch(8))


@tf.function
def epoch():
    total = 0.0
    for batch in batches:
        total += strategy.reduce("SUM", strategy.run(tf.reduce_sum, args=(batch,)), axis=None)
        if total > 50.0:
            break
    return total


print(epoch())
