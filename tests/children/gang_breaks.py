"""A gang that sums over its workers at each step: `gang_breaks.py TASK STEPS`; the task stops at step 5."""

import sys

import tensorflow as tf

from clusterkit import training

who, steps = sys.argv[1], int(sys.argv[2])
strategy = training.strategy()


@tf.function
def step():
    return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.constant(1.0)))


for number in range(1, steps + 1):
    if training.task() == who and number == 5:
        breakpoint()
    assert float(step()) == training.num_workers()
    training.report(number)
