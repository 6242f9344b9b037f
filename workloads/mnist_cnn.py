"""Trains a convolutional network on MNIST with `fit`: on one device, mirrored or on workers, with the same result.

    clusterkit up workloads/mnist_cnn.py
    clusterkit up workloads/mnist_cnn.py --strategy mirrored --devices 2
    clusterkit up --workers 2 workloads/mnist_cnn.py

The batch size is global and split among the replicas, so the loss of a step is the same for any number of them. At the
end the chief exports the model. If MNIST is not available, scikit-learn's digits replace it, and a message says so.
"""

from __future__ import annotations

import argparse
from typing import Any

import images
import tensorflow as tf
from slow import slowed

from clusterkit import training

STEPS = 300  # the approximate default, in whole epochs


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", choices=("default", "mirrored"), help="in a single process; leave out on workers")
    parser.add_argument("--devices", type=int, help="with --strategy mirrored: GPUs, or logical CPU devices")
    parser.add_argument("--epochs", type=int, help=f"[as many as make {STEPS} steps]")
    parser.add_argument("--steps-per-epoch", type=int, metavar="N", help="end each epoch there")
    parser.add_argument("--batch-size", type=int, default=64, help="images per step, over all replicas")
    parser.add_argument("--learning-rate", type=float, default=0.001)
    parser.add_argument("--data", choices=images.SOURCES, default="auto")
    parser.add_argument("--step-time", type=float, default=0.0, metavar="SECONDS", help="minimum duration of a step")
    parser.add_argument("--checkpoint-every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--export-format", choices=("keras", "saved_model"), default="keras")
    return parser.parse_args()


def make_model() -> tf.keras.Model:
    """Create the model. It takes raw pixels, 0 to 255, so that the exported model needs no preprocessing."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            tf.keras.Input((28, 28, 1)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(16, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(images.CLASSES),
        ]
    )


def make_batches(data: images.Images, batch_size: int, *, whole: bool) -> tf.data.Dataset:
    """Create global batches in the same order in every epoch, so that a run can resume within an epoch.

    `whole` drops the last batch if it is not full.
    """
    batches = tf.data.Dataset.from_tensor_slices(tuple(data)).batch(batch_size, drop_remainder=whole)
    return batches.map(lambda pixels, labels: (tf.cast(pixels, tf.float32), labels))


def compile_model(strategy: Any, learning_rate: float) -> tf.keras.Model:
    tf.keras.utils.set_random_seed(2017)  # the same first weights in every worker
    with strategy.scope():
        model = make_model()
        model.compile(
            tf.keras.optimizers.Adam(learning_rate),
            tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    return model


def main() -> None:
    args = parse()
    # Before anything else in TensorFlow: it starts this worker's server, or splits the CPU.
    strategy = training.strategy(args.strategy, devices=args.devices)
    training.per_replica_batch(args.batch_size, strategy)  # raises if it is not divisible
    learning, held_out = images.mnist(strategy, args.data)
    model = compile_model(strategy, args.learning_rate)
    with strategy.scope():
        batches = training.sharded(slowed(make_batches(learning, args.batch_size, whole=True), args.step_time))
        validation = training.sharded(make_batches(held_out, args.batch_size, whole=False))
    if args.steps_per_epoch:
        batches = batches.take(args.steps_per_epoch)
    epochs = args.epochs or max(1, round(STEPS / int(batches.cardinality())))
    model.fit(
        batches,
        epochs=epochs,
        shuffle=False,
        validation_data=validation,
        callbacks=[training.Backup(every=args.checkpoint_every)],
        verbose=2 if training.is_chief() else 0,
    )
    exported = training.export(model, format=args.export_format)
    if exported:
        print(f"exported {exported}")
    accuracy = model.evaluate(validation, verbose=0, return_dict=True)["accuracy"]
    training.report(int(model.optimizer.iterations.numpy()), accuracy=accuracy)
    print(f"held-out accuracy {accuracy:.3f} after {model.optimizer.iterations.numpy()} steps")


if __name__ == "__main__":
    main()
