"""A per-replica value is used as a tensor."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()

value = strategy.experimental_distribute_values_from_function(lambda context: tf.ones((2,)))
print(tf.add(value, 1.0))
