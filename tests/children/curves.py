"""Trains with no line for clusterkit: a loop that writes `tf.summary.scalar`, or closures whose losses are fetched.

curves.py loop|closures DIRECTORY
"""

from __future__ import annotations

import sys

import tensorflow as tf

STEPS = 20
x = tf.random.stateless_normal((32, 4), (1, 2))
y = tf.reduce_sum(x, 1, keepdims=True)


optimizer = tf.keras.optimizers.SGD(0.1)  # it lives to the end, when its steps are read a last time


def loop(directory: str) -> None:
    """One process."""
    weights = tf.Variable(tf.zeros((4, 1)))
    traced = 0

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> tf.Tensor:
        nonlocal traced
        traced += 1
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weights - y) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
        tf.summary.scalar("in_graph", loss, step=optimizer.iterations)
        return loss

    with tf.summary.create_file_writer(directory).as_default():
        for number in range(STEPS):
            loss = step()
            tf.summary.scalar("loss", loss, step=number)
    print("traced", traced, "loss", repr(float(loss)))


def closures() -> None:
    """A coordinator's."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol="grpc").join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable(tf.zeros((4, 1)))

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> dict[str, tf.Tensor]:
        weights.assign_add(0.1 * tf.ones((4, 1)))
        return {"loss": tf.reduce_mean((x @ weights - y) ** 2)}

    results = [coordinator.schedule(step) for _ in range(STEPS)]
    coordinator.join()
    print("loss", repr(float(coordinator.fetch(results)[-1]["loss"])))


if sys.argv[1] == "loop":
    loop(sys.argv[2])
else:
    closures()
