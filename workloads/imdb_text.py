"""Classifies film reviews with an embedding: `model.fit` on all workers (MultiWorkerMirroredStrategy, Keras 3).

    clusterkit up --workers 2 workloads/imdb_text.py

It uses IMDb's reviews if they are cached or can be downloaded, else generated ones; the output says which. Under plain
`python` it is a single process.
"""

from __future__ import annotations

import argparse

import tensorflow as tf
import texts

from clusterkit import training


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--steps", type=int, help="per epoch [all batches]")
    parser.add_argument("--batch-size", type=int, default=64, help="reviews per step, over all workers")
    parser.add_argument("--vocabulary", type=int, default=10000, help="number of words; rarer ones count as one")
    parser.add_argument("--length", type=int, default=200, help="words per review; only the last ones are used")
    parser.add_argument("--learning-rate", type=float, default=0.01)
    return parser.parse_args()


def make_model(args: argparse.Namespace) -> tf.keras.Model:
    """A classifier of the mean of the words' embeddings. 0 is padding, and is left out of the mean."""
    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(2017)
    words = tf.keras.Input((args.length,), dtype="int32")
    embedded = layers.Embedding(args.vocabulary, 32, mask_zero=True)(words)
    mean = layers.GlobalAveragePooling1D()(embedded)
    hidden = layers.Dense(32, activation="relu")(mean)
    model = tf.keras.Model(words, layers.Dense(1)(hidden))
    model.compile(
        tf.keras.optimizers.Adam(args.learning_rate),
        tf.keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.0, name="accuracy")],
    )
    return model


def make_dataset(reviews: texts.Reviews, size: int, shuffle: bool) -> tf.data.Dataset:
    """Create global batches, the same in every worker; `fit` gives each worker its part."""
    dataset = tf.data.Dataset.from_tensor_slices((reviews.words, reviews.labels[:, None]))
    if shuffle:
        dataset = dataset.shuffle(len(reviews.labels), seed=2017)
    return training.sharded(dataset.batch(size, drop_remainder=shuffle), "data")


def main() -> None:
    args = parse()
    strategy = training.strategy()
    learning, held_out = texts.imdb(strategy, args.vocabulary, args.length)
    with strategy.scope():
        model = make_model(args)
    batches = make_dataset(learning, args.batch_size, shuffle=True)
    if args.steps:
        batches = batches.take(args.steps)
    model.fit(batches, epochs=args.epochs, callbacks=[training.Backup()], verbose=2)
    with training.phase("evaluation"):
        loss, accuracy = model.evaluate(make_dataset(held_out, args.batch_size, shuffle=False), verbose=0)
    training.report(int(model.optimizer.iterations.numpy()), accuracy=accuracy, held_out_loss=loss)
    print(f"held-out accuracy {accuracy:.3f} after {args.epochs} epochs")


if __name__ == "__main__":
    main()
