"""Freezes worker:1, on which the other one depends."""

import os
import signal

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
task = strategy.cluster_resolver.task_id
while True:
    strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None)
    if task == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
