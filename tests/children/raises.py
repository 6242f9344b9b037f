"""A multi-worker program of TensorFlow whose worker:1 raises after a few steps; the others wait in a collective."""

import os

import tensorflow as tf

from clusterkit.training import report

strategy = tf.distribute.MultiWorkerMirroredStrategy()


@tf.function
def step():
    def one():
        return tf.distribute.get_replica_context().all_reduce("sum", tf.constant(1.0))

    return strategy.run(one)


for number in range(1, 1000):
    if os.environ["CLUSTERKIT_TASK"] == "worker:1" and number == 5:
        raise RuntimeError("a planted fault in worker:1")
    step()
    report(number)
