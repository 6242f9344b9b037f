"""Gathers names."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
names = strategy.run(lambda: tf.constant(["a", "b"]))
print(strategy.gather(names, axis=0))
