"""A parameter-server job that says of each round of steps when it was done, and by which of the workers.

Its steps return nothing: with values, a coordinator stands still for good, now and then, once a task was cut off.
"""

import json
import time

import tensorflow as tf

from clusterkit import training

PER_ROUND = 8

training.serve()
strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    steps_of = tf.Variable(tf.zeros(training.num_workers()))


def worker_index():
    mine = tf.distribute.coordinator.experimental_get_current_worker_index()
    return tf.data.Dataset.from_tensors(tf.cast(mine, tf.int64)).repeat()


@tf.function(autograph=False)
def per_worker():
    return strategy.distribute_datasets_from_function(lambda _: worker_index())


@tf.function(autograph=False)
def step(iterator):
    steps_of.assign_add(tf.one_hot(next(iterator), training.num_workers()))


indices = iter(coordinator.create_per_worker_dataset(per_worker))
done, before = 0, steps_of.numpy()
while True:
    for _ in range(PER_ROUND):
        coordinator.schedule(step, (indices,))
    coordinator.join()
    done += PER_ROUND
    training.report(done)
    after = steps_of.numpy()
    by, before = [index for index, more in enumerate(after > before) if more], after
    print(json.dumps({"at": time.monotonic(), "step": done, "by": by}), flush=True)
    time.sleep(0.02)
