"""Worker 1 catches its own error, and ends with exit code 0."""

import os

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id

try:
    for number in range(50):
        if index == 1 and number == 5:
            raise KeyError("label")
        strategy.reduce("SUM", tf.ones([64]), axis=None)
except KeyError as error:
    print(error)
    os._exit(0)
