"""Averages along the rows of a loss that has none."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
loss = strategy.run(lambda: tf.constant(1.0))
print(strategy.reduce(tf.distribute.ReduceOp.MEAN, loss, axis=0))
