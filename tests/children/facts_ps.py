"""A parameter-server job that says of each round of steps when it was done, and by which of the workers.

With an argument, the first round is one step, and the next begins when a file `go` is in the run's directory.
"""

import json
import os
import sys
import time
from pathlib import Path

import tensorflow as tf

from clusterkit import training

PER_ROUND = 8

training.serve()
strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    total = tf.Variable(0.0)


def worker_index():
    mine = tf.distribute.coordinator.experimental_get_current_worker_index()
    return tf.data.Dataset.from_tensors(tf.cast(mine, tf.int64)).repeat()


@tf.function(autograph=False)
def per_worker():
    return strategy.distribute_datasets_from_function(lambda _: worker_index())


@tf.function(autograph=False)
def step(iterator):
    total.assign_add(1.0)
    return next(iterator)


indices = iter(coordinator.create_per_worker_dataset(per_worker))
done = 0
waits = len(sys.argv) > 1
while True:
    pending = [coordinator.schedule(step, (indices,)) for _ in range(1 if waits else PER_ROUND)]
    coordinator.join()
    done += len(pending)
    by = sorted({int(value.fetch()) for value in pending})
    sys.stdout.write(json.dumps({"at": time.monotonic(), "step": done, "by": by}) + "\n")  # see facts_end.py
    while waits and not Path(os.environ["CLUSTERKIT_RUN_DIR"], "go").exists():
        time.sleep(0.02)
    waits = False
    time.sleep(0.02)
