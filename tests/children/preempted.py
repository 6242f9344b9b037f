"""A multi-worker program with TensorFlow's own preemption handler: SIGTERM, checkpoint, exit code 42."""

import os
import time

import tensorflow as tf

from clusterkit.training.progress import channel, report

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
    strategy.run(lambda: total.assign_add(1.0))
    step.assign_add(1)


channel().send("resumed", step=int(step.numpy()), path=directory if int(step.numpy()) else None)
while int(step.numpy()) < 60:
    time.sleep(0.1)
    handler.run(train)
    report(int(step.numpy()))
