"""Trains as a program does that does not know clusterkit, in steps of about a millisecond.

    unaware.py KIND STEPS FILE

KIND is `ps`, `mwms` or `fit`. FILE gets the steps a second, after as many steps as a first trace and its caches take.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import tensorflow as tf

WARMUP = 300  # steps
FEATURES, BATCH = 64, 32


def make_model() -> tf.keras.Model:
    """A small regression."""
    return tf.keras.Sequential([tf.keras.Input((FEATURES,)), tf.keras.layers.Dense(16), tf.keras.layers.Dense(1)])


def data(batches: int) -> tf.data.Dataset:
    """The same rows again and again."""
    rows = tf.random.stateless_normal((BATCH, FEATURES), (1, 2))
    return tf.data.Dataset.from_tensors((rows, tf.reduce_sum(rows, 1, keepdims=True))).repeat(batches)


def fit(steps: int) -> float:
    """`fit` in one process."""
    model = make_model()
    model.compile("sgd", "mse")
    model.fit(data(WARMUP), verbose=0)
    began = time.monotonic()
    model.fit(data(steps), verbose=0)
    return steps / (time.monotonic() - began)


def mirrored(steps: int) -> float:
    """A loop of its own, with an optimizer, on all workers."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model, optimizer = make_model(), tf.keras.optimizers.SGD(1e-3)
        optimizer.build(model.trainable_variables)
    rows = tf.random.stateless_normal((BATCH, FEATURES), (1, 2))

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> tf.Tensor:
        def one() -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(rows, training=True) ** 2)
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
            return loss

        return strategy.run(one)

    for _ in range(WARMUP):
        step()
    began = time.monotonic()
    for _ in range(steps):
        step()
    return steps / (time.monotonic() - began)


def coordinated(steps: int) -> float:
    """Closures of a coordinator, on variables of a parameter server."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol="grpc").join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable(tf.zeros((FEATURES, 1)))

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> None:
        weights.assign_add(1e-3 * tf.ones((FEATURES, 1)))

    def run(count: int) -> None:
        for _ in range(count):
            coordinator.schedule(step)
        coordinator.join()

    run(WARMUP)
    began = time.monotonic()
    run(steps)
    return steps / (time.monotonic() - began)


def main() -> None:
    """See the module's docstring."""
    kind, steps, path = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    rate = {"fit": fit, "mwms": mirrored, "ps": coordinated}[kind](steps)
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
    if task.get("type") != "worker" or task.get("index") == 0:
        path.write_text(str(rate))


if __name__ == "__main__":
    main()
