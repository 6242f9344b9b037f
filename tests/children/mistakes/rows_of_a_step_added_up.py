"""Adds up values of replicas in a loop, where the step returns a value for each row."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
batches = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(tf.ones((16, 3))).batch(8))


@tf.function
def distributed_epoch() -> tf.Tensor:
    """Add up the steps."""
    total = 0.0
    for batch in batches:
        total += strategy.reduce("SUM", strategy.run(tf.nn.relu, args=(batch,)), axis=None)
    return total


print(distributed_epoch())
