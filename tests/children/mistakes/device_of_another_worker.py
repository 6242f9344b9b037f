"""All workers create a variable on the device of worker:0."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with tf.device("/job:worker/task:0"):
    counter = tf.Variable(0)
counter.assign_add(1)
strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None)
