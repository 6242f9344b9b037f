"""Trains digits with parameter servers: a coordinator, workers that come and go, variables sharded over the ps.

    clusterkit up --workers 2 --ps 1 workloads/ps_train.py

Under plain `python` it is a single process with the same loop.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import digits
import tensorflow as tf
from slow import slowed

from clusterkit import training


class Network(tf.Module):  # type: ignore[misc]  # tensorflow ships no types
    """A network with 64 pixels, one hidden layer and 10 classes.

    It uses plain variables, since Keras 3 models do not support variables that are sharded over parameter servers.
    """

    def __init__(self, hidden: int = 256) -> None:
        super().__init__()
        draw = tf.random.stateless_truncated_normal
        self.hidden_weights = tf.Variable(draw((digits.PIXELS, hidden), seed=[1, 1], stddev=0.15))
        self.hidden_bias = tf.Variable(tf.zeros(hidden))
        self.weights = tf.Variable(draw((hidden, digits.CLASSES), seed=[1, 2], stddev=0.1))
        self.bias = tf.Variable(tf.zeros(digits.CLASSES))

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        hidden = tf.nn.relu(tf.matmul(images, self.hidden_weights) + self.hidden_bias)
        return tf.matmul(hidden, self.weights) + self.bias


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2500, help="total steps of all workers")
    parser.add_argument("--batch-size", type=int, default=64, help="images per step")
    # Not scaled by the number of workers as in synchronous training: each step applies the gradient of one batch.
    parser.add_argument("--learning-rate", type=float, default=0.2)
    parser.add_argument("--step-time", type=float, default=0.0, metavar="SECONDS", help="minimum duration of a step")
    parser.add_argument("--checkpoint-every", type=int, default=250, metavar="STEPS")
    return parser.parse_args()


def make_strategy() -> tf.distribute.Strategy:
    if not training.has_ps():
        print("no parameter servers in TF_CONFIG: training in a single process with the default strategy")
        return tf.distribute.get_strategy()
    # A small limit, to show sharding: real programs use shards of 256 KiB or more.
    cut = tf.distribute.experimental.partitioners.MinSizePartitioner(min_shard_bytes=4096, max_shards=training.num_ps())
    return tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver(), cut)


MOST = 5.0  # norm of a gradient; the largest that training makes is 1.4, in its first step


def batches(data: digits.Digits, args: argparse.Namespace, first_step: int) -> tf.data.Dataset:
    """Create one worker's infinite batches, in a different order in each worker and after each restart."""
    worker = tf.distribute.coordinator.experimental_get_current_worker_index() if training.has_ps() else 0
    seeds = tf.data.Dataset.counter(tf.cast(worker, tf.int64) * 1_000_003 + first_step)

    def draw(seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        picked = tf.random.stateless_uniform((args.batch_size,), [2017, seed], 0, len(data.labels), tf.int64)
        return tf.gather(data.images, picked), tf.gather(data.labels, picked)

    return slowed(seeds.map(draw), args.step_time)


def make_step(strategy: tf.distribute.Strategy, network: Network, tally: tf.Variable, rate: float) -> Any:
    """Create the step function: it computes a gradient, and updates the variables and the tally on the ps."""

    def replica_step(images: tf.Tensor, labels: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, network(images))
            loss = tf.reduce_mean(losses)
        variables = network.trainable_variables  # the shards of sharded variables are separate variables
        gradients = tape.gradient(loss, variables)
        # A worker that is out of memory computes garbage before it dies (TensorFlow 2.21): ignore its step.
        sound = tf.linalg.global_norm(gradients) < MOST  # not if it is no number, either
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_sub(tf.where(sound, rate * gradient, 0.0))
        tally.assign_add(tf.cast(tf.stack([1.0, tf.where(sound, loss, 0.0)]), tally.dtype))

    def step(iterator: Any) -> None:
        strategy.run(replica_step, next(iterator))

    return step


def train(rounds: training.Rounds, checkpointer: training.Checkpointer, args: argparse.Namespace, saved: int) -> None:
    # Rounds of about 0.2 s: short enough to watch, and long enough that workers seldom wait for each other.
    size = training.num_workers() * max(1, min(10, round(0.2 / max(args.step_time, 0.001))))
    printed_at, every = time.monotonic(), args.checkpoint_every
    for step, loss in rounds.until(args.steps, size=size, stop_at=every, step_time=args.step_time):
        training.report(step, total=args.steps, loss=loss)
        if time.monotonic() - printed_at > 1:
            print(f"step {step} loss {loss:.4f}")
            printed_at = time.monotonic()
        if step // every > saved // every or step == args.steps:
            checkpointer.save(step)
            saved = step


def main() -> None:
    args = parse()
    training.serve()
    strategy = make_strategy()
    learning, held_out = digits.load()
    with strategy.scope():
        network = Network()
    checkpointer = training.Checkpointer(network=network)
    first_step = checkpointer.restore()
    print(f"training from step {first_step} to {args.steps} on {training.num_workers()} workers")
    with strategy.scope():
        tally = tf.Variable([first_step, 0.0], dtype=tf.float64, trainable=False)
    step = make_step(strategy, network, tally, args.learning_rate)
    if first_step < args.steps:  # else the coordinator would abort: Python would exit during its first connections
        rounds = training.Rounds(strategy, lambda: batches(learning, args, first_step), step, tally)
        train(rounds, checkpointer, args, first_step)
    with training.phase("evaluation"):
        accuracy = digits.accuracy(network, held_out)
    training.report(args.steps, accuracy=accuracy)
    print(f"held-out accuracy {accuracy:.3f} after {args.steps} steps")


if __name__ == "__main__":
    main()
