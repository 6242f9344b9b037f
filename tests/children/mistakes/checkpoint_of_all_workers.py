"""All workers write their checkpoint to the same path."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
with strategy.scope():
    v = [tf.Variable(tf.ones(1000)) for _ in range(20)]
ck = tf.train.Checkpoint(v=v)
for _ in range(100):
    ck.write("ck")
