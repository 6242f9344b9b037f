"""Trains digits with Keras 3 on JAX, on several processes, with Keras' own distribution and `fit`.

    clusterkit up --workers 2 --convention keras workloads/keras_jax.py

`keras.distribution.initialize` finds the other processes by the variables that clusterkit sets. Each process gives
`fit` its share of every batch. After every epoch the chief saves the model's and the optimizer's variables.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "jax")  # for a run without clusterkit

import arrays
import digits
import keras
import numpy as np

from clusterkit import training


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--steps-per-epoch", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=64, help="images per step, over all processes")
    parser.add_argument("--step-time", type=float, default=0.0, metavar="SECONDS", help="minimum duration of a step")
    return parser.parse_args()


def make_model() -> Any:
    keras.utils.set_random_seed(2017)
    hidden = keras.layers.Dense(256, activation="relu")
    model = keras.Sequential([keras.Input((digits.PIXELS,)), hidden, keras.layers.Dense(digits.CLASSES)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9), loss=loss, metrics=["accuracy"])
    model.optimizer.build(model.trainable_variables)
    return model


def variables_of(model: Any) -> list[Any]:
    return [*model.variables, *model.optimizer.variables]


class Saving(keras.callbacks.Callback):  # type: ignore[misc]
    """Reports each step, and saves after each epoch."""

    def __init__(self, args: argparse.Namespace, first: int) -> None:
        super().__init__()
        self._args, self._step, self._began = args, first, time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        time.sleep(max(0.0, self._began + self._args.step_time - time.monotonic()))
        self._began = time.monotonic()
        self._step += 1
        training.report(self._step, total=self._args.epochs * self._args.steps_per_epoch)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        saved = {f"v{n}": np.asarray(one.value) for n, one in enumerate(variables_of(self.model))}
        arrays.save(self._step, saved)
        print(f"step {self._step}  loss {(logs or {})['loss']:.4f}", flush=True)


def batches(data: digits.Digits, args: argparse.Namespace, first: int, part: int, parts: int) -> Any:
    """Yield this process's share of the batches from step `first` on."""
    size = args.batch_size // parts * parts
    for step in range(first, args.epochs * args.steps_per_epoch):
        drawn = np.random.default_rng([2017, step]).integers(0, len(data.labels), size)[part::parts]
        yield data.images[drawn], data.labels[drawn]


def main() -> None:
    args, part, parts = parse(), 0, 1
    if "KERAS_DISTRIBUTION_NUM_PROCESSES" in os.environ:
        keras.distribution.initialize()
        part, parts = int(os.environ["KERAS_DISTRIBUTION_PROCESS_ID"]), training.num_workers()
        keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
    train, held_out = digits.load()
    model = make_model()
    first, saved = arrays.newest()
    for number, variable in enumerate(variables_of(model) if saved else []):
        variable.assign(saved[f"v{number}"])
    model.fit(
        batches(train, args, first, part, parts),
        initial_epoch=first // args.steps_per_epoch,
        epochs=args.epochs,
        steps_per_epoch=args.steps_per_epoch,
        callbacks=[Saving(args, first)],
        shuffle=False,
        verbose=0,
    )
    weights = [np.asarray(one.value) for one in model.trainable_variables]
    hidden = np.maximum(held_out.images @ weights[0] + weights[1], 0)
    right = np.argmax(hidden @ weights[2] + weights[3], axis=1) == held_out.labels
    training.report(args.epochs * args.steps_per_epoch, accuracy=np.mean(right))
    print(f"held-out accuracy {np.mean(right):.3f}", flush=True)


if __name__ == "__main__":
    arrays.run(main)
