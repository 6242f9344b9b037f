"""Trains in step on two workers; in its first attempt worker:1 is lost in its own code at step 10: `loops.py`.

`loops.py --never-up`: worker:1 does not even begin.
"""

import sys
import time

import tensorflow as tf

from clusterkit import training


@tf.function
def step():
    def add():
        everyone = tf.distribute.get_replica_context()
        return everyone.all_reduce("SUM", tf.ones(4))

    return strategy.run(add)


def lost():
    while True:
        pass


if "--never-up" in sys.argv and training.task() == "worker:1":
    time.sleep(1000)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
for number in range(1, 41):
    if number == 10 and training.task() == "worker:1" and training.attempt() == 1:
        lost()
    step()
    training.report(number)
    time.sleep(0.02)
