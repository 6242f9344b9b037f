"""Trains the same model on the same data synchronously and asynchronously, and draws both learning curves.

    clusterkit up --workers 2 workloads/sync_async.py --out curves
    clusterkit up --workers 2 --ps 1 workloads/sync_async.py --out curves

Without parameter servers all workers take each step together, with a batch from each of them. With parameter servers
each worker takes steps independently, while the others change the weights. Each run writes a CSV to `curves/`, by
examples and by seconds; the second run also writes `sync_async.svg`. Under plain `python` it is a single process.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import digits
import mwms_train
import ps_train
import tensorflow as tf

from clusterkit import training

COLUMNS = ("examples", "seconds", "loss", "accuracy")
COLORS = {"sync": "#1f77b4", "async": "#d95f02"}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="curves", metavar="DIR", help="directory for the curves")
    parser.add_argument("--examples", type=int, default=64000, help="total examples of all workers")
    parser.add_argument("--batch-size", type=int, default=32, help="images per step and worker")
    parser.add_argument("--learning-rate", type=float, default=0.1, help="for one worker")
    parser.add_argument("--step-time", type=float, default=0.0, metavar="SECONDS", help="minimum duration of a step")
    parser.add_argument("--points", type=int, default=20, help="of the curve, each with a checkpoint and an evaluation")
    return parser.parse_args()


class Curve:
    """The points of a run's curve, in a file that a restarted run continues."""

    def __init__(self, directory: Path, name: str, done: int) -> None:
        self._path = directory / f"{name}.csv"
        self._points = [point for point in read(self._path) if point[0] <= done] if done else []
        self._before = self._points[-1][1] if self._points else 0.0
        self._began = time.monotonic()

    def add(self, examples: int, loss: float, accuracy: float) -> None:
        """Add a point and rewrite the file atomically."""
        self._points.append((examples, self._before + time.monotonic() - self._began, loss, accuracy))
        if not training.is_chief():
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        with part.open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *self._points])
        part.replace(self._path)


def read(path: Path) -> list[tuple[float, ...]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [tuple(map(float, row)) for row in list(csv.reader(file))[1:]]


def draw(directory: Path) -> None:
    """Draw both curves, by examples and by seconds."""
    curves = {name: read(directory / f"{name}.csv") for name in ("sync", "async")}
    if not all(curves.values()):
        print(f"{directory} has one curve. To draw both, run again with (or without) --ps 1 and the same --out.")
        return
    picture = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 330" font-family="sans-serif" font-size="12">']
    for left, column in ((60, 0), (450, 1)):
        most = max(point[column] for points in curves.values() for point in points)
        picture.append(f'<path d="M{left} 20v260h300" fill="none" stroke="gray"/>')
        for share in (0, 0.5, 1):
            picture.append(f'<text x="{left - 8}" y="{284 - 260 * share:g}" text-anchor="end">{share:g}</text>')
            picture.append(f'<text x="{left + 300 * share:g}" y="298" text-anchor="middle">{most * share:g}</text>')
        picture.append(f'<text x="{left + 150}" y="318" text-anchor="middle">{COLUMNS[column]}</text>')
        for (name, color), height in zip(COLORS.items(), (240, 258), strict=True):
            line = " ".join(f"{left + 300 * at[column] / most:.1f},{280 - 260 * at[3]:.1f}" for at in curves[name])
            picture.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
            picture.append(f'<text x="{left + 230}" y="{height}" fill="{color}">{name}</text>')
    picture.append('<text x="60" y="12">held-out accuracy</text></svg>')
    (directory / "sync_async.svg").write_text("\n".join(picture))
    print(f"both curves are in {directory / 'sync_async.svg'}")


def sync(strategy: Any, network: Any, data: digits.Digits, args: argparse.Namespace, first: int, total: int) -> Any:
    """Run synchronous steps; after each yield the number of steps done, and the loss."""
    rate = args.learning_rate * training.num_workers()  # a step has one batch from each worker

    def replica_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, network(images)))
        gradients = tape.gradient(loss, network.trainable_variables)
        gradients = tf.distribute.get_replica_context().all_reduce("MEAN", gradients)
        for variable, gradient in zip(network.trainable_variables, gradients, strict=True):
            variable.assign_sub(rate * gradient)
        return loss

    step_on = tf.function(lambda batch: strategy.reduce("MEAN", strategy.run(replica_step, args=batch), axis=None))
    batches = mwms_train.make_batches(strategy, data, args, first)
    for step in range(first + 1, total + 1):
        yield step, step_on(next(batches))


def main() -> None:
    args = parse()
    training.serve()
    strategy = training.strategy()
    name = "async" if training.has_ps() else "sync"
    at_once = args.batch_size * (1 if training.has_ps() else training.num_workers())  # examples in a step
    total = args.examples // at_once
    learning, held_out = digits.load()
    with strategy.scope():
        network = ps_train.Network()
    checkpointer = training.Checkpointer(network=network)
    first = checkpointer.restore()
    directory = Path(args.out).absolute()
    curve, every = Curve(directory, name, first * at_once), max(1, total // args.points)
    if training.has_ps():
        with strategy.scope():
            tally = tf.Variable([first, 0.0], dtype=tf.float64, trainable=False)
        step_on = ps_train.make_step(strategy, network, tally, args.learning_rate)
        rounds = training.Rounds(strategy, lambda: ps_train.batches(learning, args, first), step_on, tally)
        steps = rounds.until(total, size=10 * training.num_workers(), stop_at=every)
    else:
        steps = sync(strategy, network, learning, args, first, total)
    saved = first
    for step, loss in steps if first < total else ():
        training.report(step, total=total, loss=loss)
        if step // every > saved // every or step == total:
            accuracy = digits.accuracy(network, held_out)
            curve.add(step * at_once, float(loss), accuracy)
            print(f"{name}: {step * at_once} examples, loss {float(loss):.4f}, held-out accuracy {accuracy:.3f}")
            training.report(step, accuracy=accuracy)
            checkpointer.save(step)
            saved = step
    if training.is_chief():
        draw(directory)


if __name__ == "__main__":
    main()
