"""Trains a convolutional network on CIFAR-10: synchronous training, a custom loop, and random image augmentation.

    clusterkit up --workers 2 --tensorboard workloads/cifar10_cnn.py

Batches and their augmentation are pure functions of the step, so a run that was killed and resumed ends with the
weights of an undisturbed run. TensorBoard shows loss, accuracy, learning rate, images and the graph of a step.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import images
import mwms_train
import tensorflow as tf
from slow import slowed

from clusterkit import training


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=32, help="images per step and worker")
    parser.add_argument("--learning-rate", type=float, default=0.05, help="for one worker; scaled by their number")
    parser.add_argument("--warmup-steps", type=int, default=50, help="steps until the full learning rate")
    parser.add_argument("--data", choices=images.SOURCES, default="auto")
    parser.add_argument("--step-time", type=float, default=0.0, metavar="SECONDS", help="minimum duration of a step")
    parser.add_argument("--checkpoint-every", type=int, default=50, metavar="STEPS")
    return parser.parse_args()


def make_model() -> tf.keras.Model:
    """Three convolutions, with group normalization: unlike batch normalization, it ignores how the batch is split."""
    tf.keras.utils.set_random_seed(2017)  # the same first weights in every worker
    layers = tf.keras.layers
    stack = [tf.keras.Input((32, 32, 3)), layers.Rescaling(1 / 127.5, offset=-1.0)]
    for filters in (16, 32, 64):
        stack += [layers.Conv2D(filters, 3, padding="same", use_bias=False), layers.GroupNormalization(8)]
        stack += [layers.ReLU(), layers.MaxPooling2D()]
    return tf.keras.Sequential([*stack, layers.GlobalAveragePooling2D(), layers.Dense(images.CLASSES)])


def changed(pixels: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Augment a batch: flip each image, shift it by up to 4 pixels, and change its brightness and colours."""
    count = tf.shape(pixels)[0]
    flip = tf.random.stateless_uniform((count, 1, 1, 1), seed) < 0.5
    pixels = tf.where(flip, tf.reverse(pixels, [2]), pixels)
    padded = tf.pad(pixels, [[0, 0], [4, 4], [4, 4], [0, 0]], "SYMMETRIC")
    corners = tf.random.stateless_uniform((count, 2), seed + 1, 0, 9, tf.int32)
    rows, columns = corners[:, :1] + tf.range(32), corners[:, 1:] + tf.range(32)
    shifted = tf.gather(tf.gather(padded, rows, batch_dims=1), columns, axis=2, batch_dims=1)
    light = tf.random.stateless_uniform((count, 1, 1, 3), seed + 2, 0.8, 1.2)
    return tf.clip_by_value(tf.cast(shifted, tf.float32) * light, 0.0, 255.0)


def make_batches(strategy: Any, data: images.Images, args: argparse.Namespace, first: int) -> Iterator[Any]:
    """Yield the batches from step `first` on, without end; each replica makes its own part of each global batch."""
    pixels, labels = tf.constant(data.pixels), tf.constant(data.labels)
    parts: dict[int, Iterator[Any]] = {}

    def part(mine: int, replicas: int) -> tf.data.Dataset:
        def draw(step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            drawn = tf.random.stateless_uniform((args.batch_size * replicas,), [2017, step], 0, len(labels), tf.int64)
            drawn = drawn[mine::replicas]
            return changed(tf.gather(pixels, drawn), tf.stack([step * replicas + mine, 10])), tf.gather(labels, drawn)

        plain = tf.data.Options()
        plain.autotune.enabled = False  # as in mwms_train.py: its thread is sometimes slow to stop
        return slowed(tf.data.Dataset.counter(first).map(draw), args.step_time).prefetch(2).with_options(plain)

    def next_part(context: tf.distribute.experimental.ValueContext) -> Any:
        mine = context.replica_id_in_sync_group
        if mine not in parts:
            parts[mine] = iter(part(mine, context.num_replicas_in_sync))
        return next(parts[mine])

    while True:
        yield strategy.experimental_distribute_values_from_function(next_part)


def make_step(strategy: Any, model: Any, optimizer: Any) -> Any:
    """Create the step function, which returns the mean loss and the accuracy of the global batch."""

    def replica_step(pixels: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(pixels, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            # Divided by the global batch size, not by the replica's: the optimizer sums the replicas' gradients.
            loss = tf.nn.compute_average_loss(losses)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        right = tf.nn.compute_average_loss(tf.cast(tf.argmax(logits, axis=1) == labels, tf.float32))
        return tf.stack([loss, right])

    def step(batch: Any) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(replica_step, args=batch), axis=None)

    return tf.function(step)


def train(step_on: Any, batches: Iterator[Any], rate: Any, save: Any, args: argparse.Namespace, first: int) -> None:
    printed_at, step = time.monotonic(), first
    while step < args.steps:
        loss, right = step_on(next(batches)).numpy()
        step += 1
        training.report(step, total=args.steps, loss=loss, accuracy=right)
        for name, value in {"loss": loss, "accuracy": right, "learning rate": rate(step)}.items():
            tf.summary.scalar(name, value, step)
        if time.monotonic() - printed_at > 1:
            print(f"step {step} loss {loss:.4f} accuracy {right:.2f}")
            printed_at = time.monotonic()
        if step % args.checkpoint_every == 0 or step == args.steps:
            save(step)


def accuracy_on(data: images.Images, model: Any) -> float:
    parts = tf.data.Dataset.from_tensor_slices(tuple(data)).batch(250)
    right = [tf.argmax(model(tf.cast(pixels, tf.float32)), axis=1) == labels for pixels, labels in parts]
    return float(tf.reduce_mean(tf.cast(tf.concat(right, axis=0), tf.float32)))


def main() -> None:
    args = parse()
    strategy = training.strategy()  # before anything else in TensorFlow: it starts this worker's server
    learning, held_out = images.cifar10(strategy, args.data)
    with strategy.scope():
        model = make_model()
        rate = training.learning_rate(args.learning_rate, warmup_steps=args.warmup_steps)
        optimizer = tf.keras.optimizers.SGD(rate, momentum=0.9)
        optimizer.build(model.trainable_variables)
    checkpointer = training.Checkpointer(model=model, optimizer=optimizer)
    first = checkpointer.restore()
    print(f"training from step {first} to {args.steps} on {training.num_workers()} workers")
    batches, step_on = make_batches(strategy, learning, args, first), make_step(strategy, model, optimizer)
    with tf.summary.create_file_writer(training.tensorboard_dir()).as_default():
        tf.summary.image("changed at random", changed(learning.pixels[:12], tf.constant([0, 1])) / 255, first, 12)
        train(step_on, batches, rate, checkpointer.save, args, first)
        tf.summary.graph(step_on.get_concrete_function(next(batches)).graph)
    accuracy = accuracy_on(held_out, model)
    print(f"weights digest {mwms_train.digest(model)}")
    training.report(args.steps, accuracy=accuracy)
    print(f"held-out accuracy {accuracy:.3f} after {args.steps} steps")


if __name__ == "__main__":
    main()
