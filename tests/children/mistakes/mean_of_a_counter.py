"""A step counts in an integer variable whose values in the replicas are averaged."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    seen = tf.Variable(0, aggregation=tf.VariableAggregation.MEAN)


@tf.function
def train():
    strategy.run(lambda: seen.assign_add(8))


train()
