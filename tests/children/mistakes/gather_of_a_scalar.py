"""Gathers a loss, which has no axis."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
loss = strategy.run(lambda: tf.constant(1.0))
print(strategy.gather(loss, axis=0))
