"""The program that `clusterkit doctor --deep` runs: two workers compute a sum together and check the result."""

from __future__ import annotations

import tensorflow as tf


def main() -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function  # type: ignore[untyped-decorator]
    def add() -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: tf.constant(1.0)), axis=None)

    if int(add()) != strategy.num_replicas_in_sync:
        raise SystemExit(f"{strategy.num_replicas_in_sync} replicas added 1 each, but the sum is {add()}.")


if __name__ == "__main__":
    main()
