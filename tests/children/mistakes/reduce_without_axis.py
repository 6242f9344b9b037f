"""Reduces without saying along which axis."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
losses = strategy.run(lambda: tf.ones((4,)))
print(strategy.reduce(tf.distribute.ReduceOp.MEAN, losses))
