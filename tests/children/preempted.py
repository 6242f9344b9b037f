"""A multi-worker program with TensorFlow's own preemption handler: SIGTERM, checkpoint, exit code 42.

It trains until it is preempted, or for as many steps as are given, and 30 steps after that.
"""

import os
import sys
import time

import tensorflow as tf

from clusterkit.training.progress import channel, report

FIRST = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    total = tf.Variable(0.0)
    step = tf.Variable(0, dtype=tf.int64, trainable=False)
checkpoint = tf.train.Checkpoint(total=total, step=step)
directory = os.environ["CLUSTERKIT_CHECKPOINT_DIR"]
handler = tf.distribute.experimental.PreemptionCheckpointHandler(
    tf.distribute.cluster_resolver.TFConfigClusterResolver(), checkpoint, directory
)


@tf.function
def train():
    # The workers wait for each other, as in any training: one that is far behind could not reach the step at which all
    # of them save before its grace period is over.
    strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: total.assign_add(1.0)), axis=None)
    step.assign_add(1)


begun = int(step.numpy())
channel().send("resumed", step=begun, path=directory if begun else None)
while int(step.numpy()) < (begun + 30 if begun else FIRST):
    time.sleep(0.1)
    handler.run(train)
    report(int(step.numpy()))
