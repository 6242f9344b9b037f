"""The arguments of run are not in a tuple: the comma is missing."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(16).batch(8))
for batch in data:
    strategy.run(tf.reduce_sum, args=(batch))
