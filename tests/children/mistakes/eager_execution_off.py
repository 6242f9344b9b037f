"""Turns off eager execution, as programs of TensorFlow 1 do."""

import tensorflow as tf

tf.compat.v1.disable_eager_execution()
strategy = tf.distribute.MultiWorkerMirroredStrategy()
for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.range(16).batch(8)):
    strategy.run(tf.reduce_sum, args=(batch,))
