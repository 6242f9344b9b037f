"""How often a SIGTERM handler has run: set before the strategy, then set again; two signals each time.

With a directory, TensorFlow's own handler is made afterwards, which takes SIGTERM and ends the program.
"""

import json
import os
import signal
import sys
import time

import tensorflow as tf

ran = []


def save(number, frame):
    ran.append(number)


def terminate():
    """Send this process SIGTERM, and let TensorFlow's notifier see it, which looks once in a second."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(1.5)
    strategy.reduce("sum", tf.constant(1.0), axis=None)
    return len(ran)


signal.signal(signal.SIGTERM, save)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
kept = signal.getsignal(signal.SIGTERM).__name__
if len(sys.argv) > 1:
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    checkpoint = tf.train.Checkpoint(step=tf.Variable(0))
    handler = tf.distribute.experimental.PreemptionCheckpointHandler(resolver, checkpoint, sys.argv[1])
    for step in range(1000):
        handler.run(lambda: strategy.reduce("sum", tf.constant(1.0), axis=None))
        if resolver.task_id == 0 and step == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.02)
first = terminate()
signal.signal(signal.SIGTERM, save)
print(json.dumps([kept, first, terminate()]))
