"""Trains as a program does that does not know clusterkit, in steps of about a millisecond.

    unaware.py KIND STEPS FILE

KIND is `ps`, `mwms` or `fit`. FILE gets the steps a second, after as many steps as a first trace and its caches take.
For `ps`, FILE.uncounted gets the steps a second of TensorFlow's own coordinator: two processes that do the same differ
by 5 %, so blocks of closures with and without clusterkit's patch take turns in one process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf
from tensorflow.python.distribute.coordinator.cluster_coordinator import Worker

WARMUP = 300  # steps
FEATURES, BATCH = 64, 32
BLOCK = 300  # closures; the coordinator is empty before and after each block


def make_model() -> tf.keras.Model:
    """A small regression."""
    return tf.keras.Sequential([tf.keras.Input((FEATURES,)), tf.keras.layers.Dense(16), tf.keras.layers.Dense(1)])


def data(batches: int) -> tf.data.Dataset:
    """The same rows again and again."""
    rows = tf.random.stateless_normal((BATCH, FEATURES), (1, 2))
    return tf.data.Dataset.from_tensors((rows, tf.reduce_sum(rows, 1, keepdims=True))).repeat(batches)


def fit(steps: int) -> dict[str, float]:
    """`fit` in one process."""
    model = make_model()
    model.compile("sgd", "mse")
    model.fit(data(WARMUP), verbose=0)
    began = time.monotonic()
    model.fit(data(steps), verbose=0)
    return {"": steps / (time.monotonic() - began)}


def mirrored(steps: int) -> dict[str, float]:
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
    return {"": steps / (time.monotonic() - began)}


def coordinated(steps: int) -> dict[str, float]:
    """Closures of a coordinator, on variables of a parameter server: counted and not."""
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
    methods = worker_methods()
    seconds = {"": 0.0, ".uncounted": 0.0}
    blocks = steps // BLOCK
    for block in range(2 * blocks):
        kind = list(seconds)[(block + block // 2) % 2]  # counted, not, not, counted, and so on
        Worker._process_closure = methods[kind]
        began = time.monotonic()
        run(BLOCK)
        seconds[kind] += time.monotonic() - began
    return {kind: blocks * BLOCK / taken for kind, taken in seconds.items()}


def worker_methods() -> dict[str, Callable[..., None]]:
    """The coordinator's method that runs a closure, as it is here and as TensorFlow has it."""
    counted = plain = Worker._process_closure
    while hasattr(plain, "__wrapped__"):
        plain = plain.__wrapped__
    if plain is counted:
        sys.exit("Nothing is patched here.")
    return {"": counted, ".uncounted": plain}


def main() -> None:
    """See the module's docstring."""
    kind, steps, path = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    rates = {"fit": fit, "mwms": mirrored, "ps": coordinated}[kind](steps)
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
    if task.get("type") != "worker" or task.get("index") == 0:
        for kind, rate in rates.items():
            path.with_name(path.name + kind).write_text(str(rate))


if __name__ == "__main__":
    main()
