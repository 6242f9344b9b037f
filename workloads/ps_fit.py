"""Trains digits with parameter servers and `model.fit`, which Keras 2 (tf_keras) supports and Keras 3 does not.

    clusterkit up --workers 2 --ps 1 --keras 2 workloads/ps_fit.py

Each worker takes steps independently, so a step of `fit` is a step of one worker, and an epoch is a number of steps.
Under plain `python` it is a single process with the same model.
"""

from __future__ import annotations

import argparse

import digits
import tensorflow as tf

from clusterkit import training


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=100, help="per epoch, over all workers")
    parser.add_argument("--batch-size", type=int, default=64, help="images per step")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    return parser.parse_args()


def make_dataset(data: digits.Digits, size: int) -> tf.data.Dataset:
    """Create an infinite dataset, since workers progress at different speeds, in a different order in each worker."""
    whole = tf.data.Dataset.from_tensor_slices((data.images, data.labels))
    return whole.shuffle(len(data.labels)).repeat().batch(size).prefetch(1)


def make_model(args: argparse.Namespace) -> tf.keras.Model:
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Dense(256, "relu", input_shape=(digits.PIXELS,)), layers.Dense(digits.CLASSES)])
    model.compile(
        tf.keras.optimizers.SGD(args.learning_rate),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=10,  # which the coordinator schedules at once
    )
    return model


def main() -> None:
    args = parse()
    training.serve()
    strategy = training.strategy()
    learning, held_out = digits.load()
    with strategy.scope():
        model = make_model(args)
    if training.has_ps():
        made: object = tf.keras.utils.experimental.DatasetCreator(lambda _: make_dataset(learning, args.batch_size))
    else:
        made = make_dataset(learning, args.batch_size)
    model.fit(made, epochs=args.epochs, steps_per_epoch=args.steps, callbacks=[training.Backup()], verbose=2)
    with training.phase("evaluation"):  # in the chief, with the weights on the parameter servers
        accuracy = digits.accuracy(model, held_out)
    training.report(args.epochs * args.steps, accuracy=accuracy)
    print(f"held-out accuracy {accuracy:.3f} after {args.epochs} epochs of {args.steps} steps")


if __name__ == "__main__":
    main()
