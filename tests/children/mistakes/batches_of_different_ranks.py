"""The dataset is not batched."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = tf.data.Dataset.range(8)
for batch in strategy.experimental_distribute_dataset(data):
    print(batch)
