"""Trains a small model on every worker.

    clusterkit up -f job.toml

Under plain `python` it trains in one process.
"""

import argparse

import tensorflow as tf

from clusterkit import training

BATCH = 64  # rows in a step, over all workers


def main() -> None:
    """Train, and resume from the newest backup after a failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()

    # Before anything else: with several workers, TensorFlow refuses to create it later.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    # The data: replace it with your own.
    features = tf.random.stateless_normal((4096, 8), seed=[1, 2])
    targets = tf.reduce_sum(features, axis=1)
    data = tf.data.Dataset.from_tensor_slices((features, targets)).batch(BATCH)

    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    # Backup saves every 50 steps, and restores the newest backup when the program is started again.
    model.fit(data, epochs=args.epochs, shuffle=False, verbose=2, callbacks=[training.Backup(every=50)])


if __name__ == "__main__":
    main()
