"""Only the coordinator's code, as in a notebook: `coordinates.py STEPS`. It asks nobody for its role."""

import sys

import tensorflow as tf


def coordinate(steps: int) -> float:
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
    for done in range(10, steps + 1, 10):
        for _ in range(10):
            coordinator.schedule(step, args=(batches,))
        coordinator.join()
        print(f"step {done}", flush=True)
    return float(weight.numpy())


if __name__ == "__main__":
    print(f"weight {coordinate(int(sys.argv[1])):.2f}", flush=True)
