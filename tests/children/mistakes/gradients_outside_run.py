"""Applies gradients outside of run."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
with strategy.scope():
    variable = tf.Variable(1.0)
    optimizer = tf.keras.optimizers.SGD()
    optimizer.apply_gradients([(tf.constant(1.0), variable)])
