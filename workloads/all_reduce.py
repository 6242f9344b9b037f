"""Shows in numbers what an all-reduce does and how the batch size affects it; then runs and verifies all-reduces.

    clusterkit up --workers 2 workloads/all_reduce.py

Every worker holds its own vector, and each step replaces all of them by their sum. The result is known in advance: a
worker that gets a different one fails with a message. Under plain `python` there is a single worker.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import tensorflow as tf

from clusterkit import training

ROUND = 100  # steps between two checkpoints


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--size", type=int, default=1 << 16, help="length of the vector, in numbers of 4 bytes")
    parser.add_argument("--batch-size", type=int, default=32, help="examples per step and worker")
    return parser.parse_args()


def own(number: float) -> tf.Tensor:
    """Return the replica's position, from 1, times a number."""
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    return (tf.cast(replica, tf.float32) + 1.0) * number


def everywhere(strategy: tf.distribute.Strategy, function: Any) -> Any:
    """Return a function's results in this task's replica, as numbers; every task must call this."""
    mine = tf.function(lambda: strategy.run(function), autograph=False)()
    return [strategy.experimental_local_results(value)[0].numpy() for value in mine]


def show_operations(strategy: tf.distribute.Strategy) -> None:
    def operations() -> tuple[tf.Tensor, ...]:
        context = tf.distribute.get_replica_context()
        mine = own(1.0)
        gathered = context.all_gather(mine[tf.newaxis], axis=0)
        return mine, context.all_reduce("SUM", mine), context.all_reduce("MEAN", mine), gathered

    mine, total, mean, gathered = everywhere(strategy, operations)
    print(f"{strategy.num_replicas_in_sync} replicas hold 1, 2, …; this one holds {mine:g}")
    print(f"all-reduce SUM gives {total:g} and MEAN gives {mean:g} in each of them")
    print(f"all-gather gives {gathered.tolist()}")


def show_batches(strategy: tf.distribute.Strategy, size: int) -> None:
    """Compare ways to combine gradients of a linear model, for a batch that is split unequally."""
    count = strategy.num_replicas_in_sync
    whole = size * count - size // 2  # the last replica's part is half empty, as in an epoch's last batch
    x = np.arange(whole, dtype=np.float32) / whole

    def gradients() -> tuple[tf.Tensor, tf.Tensor]:
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group
        part = tf.constant(x)[replica * size : (replica + 1) * size]
        total = tf.reduce_sum(part * part)  # of the errors (w x)²/2 at w = 1
        of_parts = total / tf.cast(tf.size(part), tf.float32)
        return context.all_reduce("SUM", total / whole), context.all_reduce("MEAN", of_parts)

    right, wrong = everywhere(strategy, gradients)
    print(f"{whole} examples, {size} for each replica but the last, which has {whole - size * (count - 1)}:")
    print(f"  gradient in a single process                                  {np.mean(x * x):.6f}")
    print(f"  sum of (sum over the part / global batch): correct            {right:.6f}")
    print(f"  mean of the parts' means, which overweights the small part    {wrong:.6f}")
    print(f"a batch of {size} per worker is a global batch of {size * count}, so the learning rate scales by {count}")


def main() -> None:
    args = parse()
    strategy = training.strategy()
    count = strategy.num_replicas_in_sync
    show_operations(strategy)
    show_batches(strategy, args.batch_size)
    with strategy.scope():
        total = tf.Variable(tf.zeros(args.size))
    checkpointer = training.Checkpointer(total=total)
    first = checkpointer.restore()

    def add() -> None:
        reduced = tf.distribute.get_replica_context().all_reduce("SUM", tf.fill([args.size], own(1.0)))
        total.assign_add(reduced / (count * (count + 1) / 2))  # so that each step adds 1

    step_on = tf.function(lambda: strategy.run(add), autograph=False)
    began, done = time.monotonic(), first
    while done < args.steps:
        step_on()
        done += 1
        training.report(done)
        if done % ROUND == 0 or done == args.steps:
            if not np.all(total.numpy() == done):
                raise SystemExit(f"after {done} steps each sum should be {done}, but they are {total.numpy()}")
            checkpointer.save(done)
    took, steps = time.monotonic() - began, args.steps - first
    rate = steps * args.size * 4 / max(took, 1e-9) / 1e6
    print(f"{steps} all-reduces of {args.size * 4} bytes in {took:.1f} s: {rate:.0f} MB/s of data per worker")
    print(f"after {args.steps} steps every sum is {int(total.numpy()[0])}")


if __name__ == "__main__":
    main()
