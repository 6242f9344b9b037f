"""Sets a SIGTERM handler before the strategy is made, and sends itself SIGTERM: does the handler run?

With `checkpoints`, TensorFlow's own handler is made afterwards, which then takes SIGTERM, and ends the program.
"""

import os
import signal
import sys
import time

import tensorflow as tf

told = []
signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
strategy = tf.distribute.MultiWorkerMirroredStrategy()
if "checkpoints" in sys.argv:
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    checkpoint = tf.train.Checkpoint(step=tf.Variable(0))
    handler = tf.distribute.experimental.PreemptionCheckpointHandler(resolver, checkpoint, sys.argv[1])
    for _ in range(200):
        handler.run(lambda: strategy.reduce("sum", tf.constant(1.0), axis=None))
        if resolver.task_id == 0 and not told:
            told.append("by hand")
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.05)
strategy.reduce("sum", tf.constant(1.0), axis=None)
os.kill(os.getpid(), signal.SIGTERM)
until = time.monotonic() + 3
while time.monotonic() < until:  # TensorFlow's notifier looks once in a second
    time.sleep(0.1)
strategy.reduce("sum", tf.constant(1.0), axis=None)
print(f"the handler ran {len(told)} times")
