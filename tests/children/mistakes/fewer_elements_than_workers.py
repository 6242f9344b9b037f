"""A dataset of one element, which two workers are to share."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = tf.data.Dataset.range(1).batch(1)
for batch in strategy.experimental_distribute_dataset(data):
    print(batch)
