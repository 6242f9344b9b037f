"""A parameter-server job that schedules a function that fails, beside one that would go on for ever.

With `caught` it catches what join() raises and goes on; with `raised` its first attempt does not.
"""

import os
import sys
import time
from pathlib import Path

import tensorflow as tf

from clusterkit import training

STEPS, AT = 60, 20

training.serve()
strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    done = tf.Variable(0)
    endless = tf.Variable(True)
checkpointer = training.Checkpointer(done=done)


@tf.function
def train():
    done.assign_add(1)


@tf.function
def long():
    while endless:
        done.assign_add(0)
    return 1


@tf.function
def fail():
    tf.debugging.assert_equal(done, -1, "a planted fault")


def schedule_one_that_fails():
    result = coordinator.schedule(long)
    print("during", flush=True)
    while not Path(os.environ["CLUSTERKIT_RUN_DIR"], "go").exists():
        time.sleep(0.01)
    coordinator.schedule(fail)
    if sys.argv[1] == "raised":
        coordinator.join()
    try:
        coordinator.join()
    except tf.errors.InvalidArgumentError as error:
        print(f"join: {type(error).__name__}: {error.message.splitlines()[0]}")
    try:
        result.fetch()
    except tf.errors.CancelledError as error:
        print(f"fetch: {type(error).__name__}")


step = checkpointer.restore()
while step < STEPS:
    if step == AT and training.attempt() == 1:
        schedule_one_that_fails()
    for _ in range(4):
        coordinator.schedule(train)
    coordinator.join()
    step += 4
    training.report(step)
    if step % 20 == 0:
        checkpointer.save(step)
if sys.argv[1] == "caught":
    # As TensorFlow's own test ends: an interpreter that ends while a worker is being recovered can hang for ever.
    handler = coordinator._cluster.failure_handler
    handler.stop()
    handler._preemption_handler_thread.join()
