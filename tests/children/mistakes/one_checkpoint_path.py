"""All workers write one checkpoint at the same time."""

import sys

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    weights = [tf.Variable(tf.ones((1000, 100))) for _ in range(20)]
checkpoint = tf.train.Checkpoint(weights=weights)
manager = tf.train.CheckpointManager(checkpoint, sys.argv[1], max_to_keep=1)
for number in range(40):
    manager.save(number)
    strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones(())))
