"""Only the chief saves, and a variable is summed over the workers when it is read."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
with strategy.scope():
    count = tf.Variable(0.0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.SUM)
strategy.run(lambda: count.assign_add(1.0))
if index == 0:
    tf.train.Checkpoint(count=count).write("saved")
