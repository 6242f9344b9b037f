"""Trains digits with parameter servers: a coordinator, workers that come and go, variables in pieces on the ps.

    clusterkit up --workers 2 --ps 1 workloads/ps_train.py

Under plain `python` it is one process with the same loop.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import digits
import tensorflow as tf
from slow import slowed

from clusterkit import training


class Network(tf.Module):  # type: ignore[misc]  # tensorflow ships no types
    """64 pixels, one hidden layer, 10 classes.

    Plain variables, not a Keras 3 model: Keras 3 does not take a variable that is partitioned over parameter servers.
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
    parser.add_argument("--steps", type=int, default=2500, help="steps in all, over all workers")
    parser.add_argument("--batch-size", type=int, default=64, help="images in one step")
    # Not scaled by the number of workers, as synchronous training is: each step is applied alone, with one batch.
    parser.add_argument("--learning-rate", type=float, default=0.2)
    parser.add_argument("--step-time", type=float, default=0.0, metavar="SECONDS", help="at least this long for a step")
    parser.add_argument("--checkpoint-every", type=int, default=250, metavar="STEPS")
    return parser.parse_args()


def make_strategy() -> tf.distribute.Strategy:
    if not training.has_ps():
        print("no parameter servers in TF_CONFIG: training in a single process with the default strategy")
        return tf.distribute.get_strategy()
    # A small bound, for the sake of showing it: real variables are cut at 256 KiB or more.
    cut = tf.distribute.experimental.partitioners.MinSizePartitioner(min_shard_bytes=4096, max_shards=training.num_ps())
    return tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver(), cut)


def batches(data: digits.Digits, args: argparse.Namespace, first_step: int) -> tf.data.Dataset:
    """One worker's endless batches; another order in each worker, and after each resumption."""
    worker = tf.distribute.coordinator.experimental_get_current_worker_index() if training.has_ps() else 0
    seeds = tf.data.Dataset.counter(tf.cast(worker, tf.int64) * 1_000_003 + first_step)

    def draw(seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        picked = tf.random.stateless_uniform((args.batch_size,), [2017, seed], 0, len(data.labels), tf.int64)
        return tf.gather(data.images, picked), tf.gather(data.labels, picked)

    return slowed(seeds.map(draw), args.step_time)


def make_step(strategy: tf.distribute.Strategy, network: Network, tally: tf.Variable, rate: float) -> Any:
    """One step: a batch, its gradient, and the update, which runs where each variable is; so does the tally.

    It returns nothing: a coordinator that got a value from each step stood still as a whole, now and then, when a
    worker was cut off (TensorFlow 2.21).
    """

    def replica_step(images: tf.Tensor, labels: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, network(images))
            loss = tf.reduce_mean(losses)
        variables = network.trainable_variables  # a partitioned one is in here piece by piece
        gradients = tape.gradient(loss, variables)
        # A worker that gets no more memory computes garbage before it dies (TensorFlow 2.21): its step changes nothing.
        sound = tf.math.is_finite(tf.linalg.global_norm(gradients))
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_sub(tf.where(sound, rate * gradient, 0.0))
        tally.assign_add(tf.cast(tf.stack([1.0, tf.where(sound, loss, 0.0)]), tally.dtype))

    def step(iterator: Any) -> None:
        strategy.run(replica_step, next(iterator))

    return tf.function(step, autograph=False)


class Stepper:
    """Runs steps a round at a time: on the workers where there are any, here otherwise."""

    def __init__(self, strategy: Any, make_batches: Callable[[], tf.data.Dataset], step: Any, tally: Any) -> None:
        self._step = step
        self._tally = tally  # steps that were applied, and the sum of their losses
        self.scheduled = int(tally.numpy()[0])
        self._seen = (self.scheduled, 0.0)
        self._coordinator: Any = None
        if training.has_ps():
            self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
            # No autograph: no control flow here depends on tensors, and looking for some takes half a second.
            per_worker = tf.function(
                lambda: strategy.distribute_datasets_from_function(lambda _: make_batches()), autograph=False
            )
            self._batches = iter(self._coordinator.create_per_worker_dataset(per_worker))
        else:
            self._batches = iter(make_batches())

    def run(self, steps: int, patience: float | None) -> tuple[int, float]:
        """Run more steps; return how many are done in all, and the mean loss of the newest ones.

        A step whose worker dies is done again by another. Where a worker can't be reached, its step is left to it
        after `patience` seconds, and the others go on.
        """
        self.scheduled += steps
        for _ in range(steps):
            if self._coordinator is None:
                self._step(self._batches)
            else:
                self._coordinator.schedule(self._step, (self._batches,))
        if self._coordinator is not None and patience is None:
            self._coordinator.join()
        all_done = patience is None or self._are_done(patience)
        before, self._seen = self._seen, tuple(self._tally.numpy())
        count, total = self._seen[0] - before[0], self._seen[1] - before[1]
        return self.scheduled if all_done else min(int(self._seen[0]), self.scheduled - 1), total / max(1, count)

    def _are_done(self, patience: float) -> bool:
        until = time.monotonic() + patience
        while self._coordinator is not None and not self._coordinator.done():
            if time.monotonic() > until:
                return False
            time.sleep(0.002)
        return True


def train(stepper: Stepper, checkpointer: training.Checkpointer, args: argparse.Namespace, step: int) -> None:
    # Rounds of about a fifth of a second: often enough to watch, and the workers seldom wait for each other.
    per_round = training.num_workers() * max(1, min(10, round(0.2 / max(args.step_time, 0.001))))
    patience, said, every = None, time.monotonic(), args.checkpoint_every
    while step < args.steps:
        before = step
        # Normally what is scheduled is done by now; a step that is left to a lost worker is not.
        room = step + per_round + training.num_workers() - stepper.scheduled
        count = min(per_round, room, every - stepper.scheduled % every, args.steps - stepper.scheduled)
        is_last = stepper.scheduled + count == args.steps
        step, loss = stepper.run(count, None if is_last else patience)
        # Only the first round has something to compile; and once a worker is known to be lost, why wait for it?
        patience = max(1.0 if step == stepper.scheduled else 0.25, 5 * args.step_time)
        training.report(step, loss=loss)
        if time.monotonic() - said > 1:
            print(f"step {step} loss {loss:.4f}")
            said = time.monotonic()
        if step // every > before // every or step == args.steps:
            checkpointer.save(step)


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
    if first_step < args.steps:  # a coordinator that is still at its first connections when Python ends aborts
        stepper = Stepper(strategy, lambda: batches(learning, args, first_step), step, tally)
        train(stepper, checkpointer, args, first_step)
    with training.phase("evaluation"):
        right = tf.argmax(network(held_out.images), axis=1) == held_out.labels
        accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
    training.report(args.steps, accuracy=accuracy)
    print(f"held-out accuracy {accuracy:.3f} after {args.steps} steps")


if __name__ == "__main__":
    main()
