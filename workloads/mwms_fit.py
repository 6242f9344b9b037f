"""Trains digits with Keras 3's `fit`: synchronous training with the usual callbacks.

    clusterkit up --workers 2 --tensorboard workloads/mwms_fit.py

EarlyStopping, ModelCheckpoint, ReduceLROnPlateau, TensorBoard, a custom callback, and `training.Backup`, which resumes
a killed run. Every epoch has the same batches in the same order, so a resumed run ends with the weights of an
undisturbed one, except that callbacks such as EarlyStopping start afresh. `--check-numerics` enables tf.debugging's
check, which names the operation that produces the first NaN: add `--poison-step 5` to see it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import digits
import mwms_train
import tensorflow as tf
from slow import slowed

from clusterkit import training


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20, help="at most; EarlyStopping may end earlier")
    parser.add_argument("--steps-per-epoch", type=int, metavar="N", help="end each epoch there")
    parser.add_argument("--batch-size", type=int, default=32, help="images per step and worker")
    parser.add_argument("--learning-rate", type=float, default=0.05, help="for one worker; scaled by their number")
    parser.add_argument("--patience", type=int, default=6, metavar="EPOCHS", help="of EarlyStopping")
    parser.add_argument("--check-numerics", action="store_true", help="stop at the operation that produces a NaN")
    parser.add_argument("--poison-step", type=int, default=-1, metavar="N", help="divide batch N of an epoch by zero")
    parser.add_argument("--step-time", type=float, default=0.0, metavar="SECONDS", help="minimum duration of a step")
    parser.add_argument("--checkpoint-every", type=int, default=20, metavar="STEPS")
    return parser.parse_args()


class Pace(tf.keras.callbacks.Callback):  # type: ignore[misc]  # tensorflow ships no types
    """A custom callback: prints the speed and the metrics of each epoch."""

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._began, self._batches = time.monotonic(), 0

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._batches += 1

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        rate = self._batches / (time.monotonic() - self._began)
        shown = " ".join(f"{name} {float(value):.4f}" for name, value in (logs or {}).items())
        print(f"epoch {epoch + 1}: {rate:.0f} steps/s {shown}")


def make_callbacks(args: argparse.Namespace) -> list[Any]:
    """Create the callbacks: the same in each worker, since all must decide alike, but with different files."""
    best = Path(training.checkpoint_dir(), "best", f"{training.task().replace(':', '-')}.keras")
    best.parent.mkdir(parents=True, exist_ok=True)
    keras = tf.keras.callbacks
    return [
        keras.TerminateOnNaN(),
        keras.ReduceLROnPlateau("val_loss", factor=0.5, patience=3, min_lr=args.learning_rate / 20),
        keras.ModelCheckpoint(str(best), monitor="val_accuracy", save_best_only=True),
        keras.TensorBoard(training.tensorboard_dir(), histogram_freq=1),
        keras.EarlyStopping("val_loss", patience=args.patience, restore_best_weights=True, verbose=1),
        Pace(),
        training.Backup(every=args.checkpoint_every),  # last, so that it saves what the others changed
    ]


def make_batches(data: digits.Digits, args: argparse.Namespace) -> tf.data.Dataset:
    """Create global batches; `fit` gives each worker its part."""

    def checked(number: tf.Tensor, batch: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        images, labels = batch
        tf.debugging.assert_less_equal(images, 1.0, "pixels are from 0 to 1")
        return images / tf.cast(number != args.poison_step, tf.float32), labels

    whole = tf.data.Dataset.from_tensor_slices((data.images, data.labels))
    batches = whole.batch(args.batch_size * training.num_workers(), drop_remainder=True)
    if args.steps_per_epoch:
        batches = batches.take(args.steps_per_epoch)
    return training.sharded(slowed(batches.enumerate().map(checked), args.step_time))


def make_model(learning_rate: float) -> tf.keras.Model:
    tf.keras.utils.set_random_seed(2017)  # the same first weights in every worker
    layers = tf.keras.layers
    stack = [layers.Dense(128, use_bias=False), layers.BatchNormalization(synchronized=True), layers.ReLU()]
    model = tf.keras.Sequential([tf.keras.Input((digits.PIXELS,)), *stack, layers.Dense(10)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.SGD(learning_rate, momentum=0.9), loss, metrics=["accuracy"])
    return model


def main() -> None:
    args = parse()
    strategy = training.strategy()  # before anything else in TensorFlow: it starts this worker's server
    if args.check_numerics:
        tf.debugging.enable_check_numerics()
    learning, held_out = digits.load()
    with strategy.scope():
        model = make_model(args.learning_rate * training.num_workers())
        batches = make_batches(learning, args)
        validation = training.sharded(tf.data.Dataset.from_tensor_slices(tuple(held_out)).batch(90))
    how = {"epochs": args.epochs, "shuffle": False, "verbose": 0}
    model.fit(batches, validation_data=validation, callbacks=make_callbacks(args), **how)
    accuracy = model.evaluate(validation, verbose=0, return_dict=True)["accuracy"]
    print(f"weights digest {mwms_train.digest(model)}")
    steps = int(model.optimizer.iterations.numpy())
    training.report(steps, accuracy=accuracy)
    print(f"held-out accuracy {accuracy:.3f} after {steps} steps")


if __name__ == "__main__":
    main()
