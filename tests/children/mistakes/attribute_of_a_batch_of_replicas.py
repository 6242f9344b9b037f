"""Looks at a batch of a distributed dataset as at a tensor."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = tf.data.Dataset.range(16).batch(8)
for batch in strategy.experimental_distribute_dataset(data):
    print(batch.numpy())
