"""The dataset is distributed, and the loop reads the one that is not."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
dataset = tf.data.Dataset.from_tensor_slices(tf.ones((64, 4))).batch(8)
shares = strategy.experimental_distribute_dataset(dataset)


@tf.function
def train(x):
    return strategy.reduce("SUM", strategy.run(tf.reduce_sum, args=(x,)), axis=None)


for x in dataset:
    print(float(train(x)))
