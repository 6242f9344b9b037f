"""The cluster of servers and coordinator does not have the chief, in which the generator of the data runs."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
cluster = tf.train.ClusterSpec({"worker": config["cluster"]["worker"], "ps": config["cluster"]["ps"]})
task = config["task"]
if task["type"] != "chief":
    tf.distribute.Server(cluster, job_name=task["type"], task_index=task["index"]).join()
strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.SimpleClusterResolver(cluster))
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


def rows():
    """Yield numbers for ever."""
    while True:
        yield 1.0


@tf.function
def step(batches):
    """Return the next number."""
    return next(batches)


@tf.function
def dataset():
    """Return the dataset of a worker."""
    return tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec((), tf.float32))


batches = iter(coordinator.create_per_worker_dataset(dataset))
print(coordinator.schedule(step, args=(batches,)).fetch())
