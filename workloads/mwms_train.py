"""Trains digits synchronously on all workers (MultiWorkerMirroredStrategy), with a custom loop.

    clusterkit up --workers 2 workloads/mwms_train.py

Every batch is a pure function of the step, so a run that was killed and resumed sees the same batches as an undisturbed
run. Under plain `python` it is a single process with the same loop.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Iterator
from typing import Any

import digits
import tensorflow as tf
from slow import slowed

from clusterkit import training


def parse(description: str | None = __doc__) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch-size", type=int, default=32, help="images per step and worker")
    parser.add_argument("--learning-rate", type=float, default=0.05, help="for one worker; scaled by their number")
    parser.add_argument("--warmup-steps", type=int, default=100, help="steps until the full learning rate")
    parser.add_argument("--step-time", type=float, default=0.0, metavar="SECONDS", help="minimum duration of a step")
    parser.add_argument("--checkpoint-every", type=int, default=200, metavar="STEPS")
    return parser.parse_args()


def make_strategy() -> tf.distribute.Strategy:
    if training.in_cluster():
        return tf.distribute.MultiWorkerMirroredStrategy()
    print("no cluster in TF_CONFIG: training in a single process with the default strategy")
    return tf.distribute.get_strategy()


def make_model() -> tf.keras.Model:
    tf.keras.utils.set_random_seed(2017)  # the same first weights in every worker
    hidden = tf.keras.layers.Dense(256, activation="relu")
    return tf.keras.Sequential([tf.keras.Input((digits.PIXELS,)), hidden, tf.keras.layers.Dense(digits.CLASSES)])


def make_batches(
    strategy: tf.distribute.Strategy, data: digits.Digits, args: argparse.Namespace, first: int
) -> Iterator[Any]:
    """Yield the batches from step `first` on, without end; each replica gets its own part of each global batch.

    Why not `strategy.distribute_datasets_from_function`: when the program ends, one of its threads sometimes takes
    seconds to stop (TensorFlow 2.21). And unless the data is infinite, it asks all workers for more at each step.
    """
    parts: dict[int, Iterator[Any]] = {}

    def next_part(context: tf.distribute.experimental.ValueContext) -> Any:
        mine, replicas = context.replica_id_in_sync_group, context.num_replicas_in_sync
        if mine not in parts:
            parts[mine] = iter(slowed(part(data, mine, replicas, args.batch_size, first), args.step_time))
        return next(parts[mine])

    while True:
        yield strategy.experimental_distribute_values_from_function(next_part)


def part(data: digits.Digits, mine: int, replicas: int, size: int, first: int) -> tf.data.Dataset:
    """Create one replica's batches: every `replicas`-th image of each global batch, which depends on the step only."""

    def draw(step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        drawn = tf.random.stateless_uniform((size * replicas,), [2017, step], 0, len(data.labels), tf.int64)
        return tf.gather(data.images, drawn[mine::replicas]), tf.gather(data.labels, drawn[mine::replicas])

    plain = tf.data.Options()
    plain.autotune.enabled = False  # its thread is the one that is slow to stop
    return tf.data.Dataset.counter(first).map(draw).with_options(plain)


def make_step(strategy: tf.distribute.Strategy, model: Any, optimizer: Any) -> Any:
    """Create the step function, which returns the mean loss of the global batch."""

    def replica_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images, training=True))
            loss = tf.reduce_mean(losses)
            # This replica's part of the mean over the global batch: Keras sums the replicas' gradients.
            part_of_mean = loss / strategy.num_replicas_in_sync
        optimizer.apply(tape.gradient(part_of_mean, model.trainable_variables), model.trainable_variables)
        return loss

    def step(batch: Any) -> tf.Tensor:
        return strategy.reduce("MEAN", strategy.run(replica_step, args=batch), axis=None)

    return tf.function(step)


def train(step_on: Any, batches: Iterator[Any], optimizer: Any, save: Any, args: argparse.Namespace, step: int) -> None:
    printed_at = time.monotonic()
    while step < args.steps:
        optimizer.learning_rate = training.scaled(args.learning_rate, step, args.warmup_steps)
        loss = step_on(next(batches))
        step += 1
        training.report(step, total=args.steps, loss=loss)
        if time.monotonic() - printed_at > 1:
            print(f"step {step} loss {float(loss):.4f}")
            printed_at = time.monotonic()
        if step % args.checkpoint_every == 0 or step == args.steps:
            save(step)


def digest(model: Any) -> str:
    """Return the SHA-256 of all weights, in order."""
    hashed = hashlib.sha256()
    for weights in model.get_weights():
        hashed.update(weights.tobytes())
    return f"sha256:{hashed.hexdigest()}"


def main() -> None:
    args = parse()
    strategy = make_strategy()  # before anything else in TensorFlow: it starts this worker's server
    learning, held_out = digits.load()
    with strategy.scope():
        model = make_model()
        optimizer = tf.keras.optimizers.SGD(args.learning_rate, momentum=0.9)
        optimizer.build(model.trainable_variables)
    checkpointer = training.Checkpointer(model=model, optimizer=optimizer)
    first = checkpointer.restore()
    print(f"training from step {first} to {args.steps} on {training.num_workers()} workers")
    batches = make_batches(strategy, learning, args, first)
    train(make_step(strategy, model, optimizer), batches, optimizer, checkpointer.save, args, first)
    accuracy = digits.accuracy(model, held_out)
    print(f"weights digest {digest(model)}")
    training.report(args.steps, accuracy=accuracy)
    print(f"held-out accuracy {accuracy:.3f} after {args.steps} steps")


if __name__ == "__main__":
    main()
