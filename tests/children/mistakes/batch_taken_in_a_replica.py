"""Takes the next batch inside the function of a replica."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = tf.data.Dataset.range(16).batch(8)


def step():
    return next(iter(strategy.experimental_distribute_dataset(data)))


@tf.function
def train():
    return strategy.run(step)


train()
