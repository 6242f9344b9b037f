"""Each worker shuffles the dataset in an order of its own, and then keeps its part."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()


@tf.function
def train(x):
    return strategy.reduce("SUM", strategy.run(tf.reduce_sum, args=(x,)), axis=None)


dataset = tf.data.Dataset.range(64).shuffle(64).batch(8)
for x in strategy.experimental_distribute_dataset(dataset):
    print(int(train(x)))
