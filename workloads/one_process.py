"""Trains digits in a single process with the given strategy; all strategies end with the same weights.

    clusterkit up workloads/one_process.py --strategy mirrored --devices 2
    clusterkit up workloads/one_process.py --strategy central-storage --devices 2
    clusterkit up workloads/one_process.py --strategy one-device
    clusterkit up workloads/one_process.py --strategy tpu

Without a GPU, `--devices` splits the CPU into logical devices. Without a TPU, `tpu` prints a message and trains with
the default strategy. Every global batch is a pure function of the step and is split among the replicas. The strategies
place weights and computation differently, but their results differ only by rounding. A checkpoint of one resumes under
another.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import digits
import mwms_train
import tensorflow as tf
from slow import slowed

from clusterkit import training

STRATEGIES = ("default", "one-device", "mirrored", "central-storage", "tpu")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", choices=STRATEGIES, default="default")
    parser.add_argument("--devices", type=int, help="for mirrored and central-storage: GPUs, or logical CPU devices")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=64, help="images per step, over all replicas")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--step-time", type=float, default=0.0, metavar="SECONDS", help="minimum duration of a step")
    parser.add_argument("--checkpoint-every", type=int, default=100, metavar="STEPS")
    return parser.parse_args()


def make_model() -> tf.keras.Model:
    tf.keras.utils.set_random_seed(2017)
    hidden = tf.keras.layers.Dense(256, activation="relu")
    return tf.keras.Sequential([tf.keras.Input((digits.PIXELS,)), hidden, tf.keras.layers.Dense(digits.CLASSES)])


def make_batches(strategy: Any, data: digits.Digits, args: argparse.Namespace, first: int) -> Iterator[Any]:
    """Yield the batches from step `first` on, without end; the strategy gives each replica its part."""

    def draw(step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        drawn = tf.random.stateless_uniform((args.batch_size,), [2017, step], 0, len(data.labels), tf.int64)
        return tf.gather(data.images, drawn), tf.gather(data.labels, drawn)

    batches = slowed(tf.data.Dataset.counter(first).map(draw), args.step_time)
    return iter(strategy.experimental_distribute_dataset(batches))


def make_step(strategy: Any, model: Any, optimizer: Any, batch_size: int) -> Any:
    """Create the step function, which returns the mean loss of the global batch."""

    def replica_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images, training=True))
            # Divided by the global batch size, not by the replica's: the optimizer sums the replicas' gradients.
            loss = tf.nn.compute_average_loss(losses, global_batch_size=batch_size)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    def step(batch: Any) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(replica_step, args=batch), axis=None)

    return tf.function(step)


def train(step_on: Any, batches: Iterator[Any], save: Any, args: argparse.Namespace, step: int) -> None:
    printed_at = time.monotonic()
    while step < args.steps:
        loss = step_on(next(batches))
        step += 1
        training.report(step, total=args.steps, loss=loss)
        if time.monotonic() - printed_at > 1:
            print(f"step {step} loss {float(loss):.4f}")
            printed_at = time.monotonic()
        if step % args.checkpoint_every == 0 or step == args.steps:
            save(step)


def main() -> None:
    args = parse()
    strategy = training.strategy(args.strategy, devices=args.devices)
    training.per_replica_batch(args.batch_size, strategy)  # raises if it is not divisible
    learning, held_out = digits.load()
    with strategy.scope():
        model = make_model()
        optimizer = tf.keras.optimizers.SGD(args.learning_rate, momentum=0.9)
        optimizer.build(model.trainable_variables)
    places = sorted({device for weights in model.weights for device in devices_of(weights.value)})
    print(f"{type(strategy).__name__}: {strategy.num_replicas_in_sync} replicas, weights on {', '.join(places)}")
    checkpointer = training.Checkpointer(model=model, optimizer=optimizer)
    first = checkpointer.restore()
    print(f"training from step {first} to {args.steps}")
    batches = make_batches(strategy, learning, args, first)
    train(make_step(strategy, model, optimizer, args.batch_size), batches, checkpointer.save, args, first)
    accuracy = digits.accuracy(model, held_out)
    print(f"weights digest {mwms_train.digest(model)}")
    training.report(args.steps, accuracy=accuracy)
    print(f"held-out accuracy {accuracy:.3f} after {args.steps} steps")


def devices_of(variable: Any) -> list[str]:
    """Return the devices that hold a variable: one, or several if it is mirrored."""
    copies = getattr(variable, "values", None) or [variable]
    return [copy.device.rpartition("device:")[2] for copy in copies]


if __name__ == "__main__":
    main()
