"""Only the coordinator's code, as in a notebook: `coordinates.py STEPS [FILE]`. It asks nobody for its role.

It makes that many steps, and more until the file is there.
"""

import itertools
import sys
from pathlib import Path

import tensorflow as tf


def coordinate(steps: int, until: Path | None = None) -> float:
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weight = tf.Variable(0.0)

    @tf.function
    def per_worker():
        return strategy.distribute_datasets_from_function(lambda _: tf.data.Dataset.from_tensors(3.0).repeat())

    @tf.function
    def step(batches):
        def descend(wanted):
            weight.assign_sub(0.02 * (weight - wanted))

        strategy.run(descend, args=(next(batches),))

    batches = iter(coordinator.create_per_worker_dataset(per_worker))
    for done in itertools.count(10, 10):
        for _ in range(10):
            coordinator.schedule(step, args=(batches,))
        coordinator.join()
        print(f"step {done}", flush=True)
        if done >= steps and (until is None or until.exists()):
            break
    return float(weight.numpy())


if __name__ == "__main__":
    print(f"weight {coordinate(int(sys.argv[1]), *map(Path, sys.argv[2:])):.2f}", flush=True)
