"""Freezes the parameter server before the second worker has connected to it."""

import os
import signal
import threading
import time
from pathlib import Path

import tensorflow as tf

FREEZE = Path("freeze")
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()


def freeze():
    while not FREEZE.exists():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGSTOP)


if resolver.task_type == "ps":
    threading.Thread(target=freeze, daemon=True).start()
if resolver.task_type in ("worker", "ps"):
    tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    total = tf.Variable(0.0)
step = tf.function(lambda: total.assign_add(1.0))
coordinator.schedule(step)
coordinator.join()
FREEZE.touch()
time.sleep(2)
for _ in range(20):
    coordinator.schedule(step)
coordinator.join()
