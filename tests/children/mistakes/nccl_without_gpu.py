"""Asks for NCCL on CPUs."""

import tensorflow as tf

options = tf.distribute.experimental.CommunicationOptions(
    implementation=tf.distribute.experimental.CommunicationImplementation.NCCL
)
strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
with strategy.scope():
    variable = tf.Variable(1.0)
print(strategy.reduce("SUM", strategy.run(lambda: variable * 2), axis=None))
