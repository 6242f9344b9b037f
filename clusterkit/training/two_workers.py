"""The job of `clusterkit doctor --deep`: its workers add up a number from each, and check the sum."""

from __future__ import annotations

import tensorflow as tf


def main() -> None:
    """Run as a task of a multi-worker job."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function  # type: ignore[untyped-decorator]
    def add() -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: tf.constant(1.0)), axis=None)

    if int(add()) != strategy.num_replicas_in_sync:
        raise SystemExit(f"{strategy.num_replicas_in_sync} replicas have added up to {add()}")


if __name__ == "__main__":
    main()
