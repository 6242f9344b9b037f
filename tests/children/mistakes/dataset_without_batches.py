"""A dataset that is distributed without batches."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = tf.data.Dataset.range(8)
for batch in strategy.experimental_distribute_dataset(data):
    print(batch)
