"""Classifies false and true news with parameter servers: a large embedding sharded over the ps, a custom loop, a CSV.

    clusterkit up --workers 2 --ps 2 workloads/news_text.py
    clusterkit up --workers 2 --ps 2 workloads/news_text.py --csv articles.csv

An embedding is a typical use of parameter servers: it is large, and each step updates only a few of its rows. The CSV
needs the columns `text` and `label` (1 for a false article); without a CSV the articles are generated. Under plain
`python` it is a single process with the same loop.
"""

from __future__ import annotations

import argparse
from typing import Any

import ps_train
import tensorflow as tf
import texts
from slow import slowed

from clusterkit import training


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", metavar="FILE", help="articles [generated]")
    parser.add_argument("--steps", type=int, default=1000, help="total steps of all workers")
    parser.add_argument("--batch-size", type=int, default=64, help="articles per step")
    parser.add_argument("--buckets", type=int, default=1 << 15, help="rows of the embedding, to which words are hashed")
    parser.add_argument("--learning-rate", type=float, default=2.0)
    parser.add_argument("--step-time", type=float, default=0.0, metavar="SECONDS", help="minimum duration of a step")
    parser.add_argument("--checkpoint-every", type=int, default=200, metavar="STEPS")
    return parser.parse_args()


class Classifier(tf.Module):  # type: ignore[misc]  # tensorflow ships no types
    """A linear classifier of the mean of the words' embeddings. The embedding table has a shard on each ps."""

    def __init__(self, buckets: int, width: int = 16) -> None:
        super().__init__()
        self.table = tf.Variable(tf.random.stateless_uniform((buckets, width), [1, 2], -0.05, 0.05))
        self.weights = tf.Variable(tf.random.stateless_uniform((width, 1), [1, 3], -0.5, 0.5))
        self.bias = tf.Variable(tf.zeros(1))
        self.buckets = buckets

    def __call__(self, articles: tf.Tensor) -> tf.Tensor:
        words = tf.strings.split(tf.strings.lower(articles))
        rows = tf.strings.to_hash_bucket_fast(words.values, self.buckets)
        each = tf.nn.embedding_lookup(self.table, rows)
        mean = tf.math.segment_mean(each, words.value_rowids())
        return (tf.matmul(mean, self.weights) + self.bias)[:, 0]


def make_batches(articles: texts.Articles, args: argparse.Namespace, first_step: int) -> tf.data.Dataset:
    """Create one worker's infinite batches, in a different order in each worker and after each restart."""
    worker = tf.distribute.coordinator.experimental_get_current_worker_index() if training.has_ps() else 0
    whole = tf.data.Dataset.from_tensor_slices((articles.texts, articles.labels))
    seed = tf.cast(worker, tf.int64) * 1_000_003 + first_step
    batches = whole.shuffle(len(articles.labels), seed=seed).repeat().batch(args.batch_size).prefetch(1)
    return slowed(batches, args.step_time)


def make_step(strategy: tf.distribute.Strategy, network: Classifier, tally: tf.Variable, rate: float) -> Any:
    def replica_step(articles: tf.Tensor, labels: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(labels, tf.float32), network(articles))
            loss = tf.reduce_mean(losses)
        variables = network.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            if isinstance(gradient, tf.IndexedSlices):  # send only the rows that the batch uses
                variable.scatter_sub(tf.IndexedSlices(rate * gradient.values, gradient.indices))
            else:
                variable.assign_sub(rate * gradient)
        tally.assign_add(tf.cast(tf.stack([1.0, loss]), tally.dtype))

    return lambda iterator: strategy.run(replica_step, next(iterator))


def main() -> None:
    args = parse()
    training.serve()
    strategy = training.strategy(partitioner="min-size")
    learning, held_out = texts.news(args.csv)
    with strategy.scope():
        network = Classifier(args.buckets)
    checkpointer = training.Checkpointer(network=network)
    first = checkpointer.restore()
    print(f"training from step {first} to {args.steps} on {training.num_workers()} workers")
    with strategy.scope():
        tally = tf.Variable([first, 0.0], dtype=tf.float64, trainable=False)
    step_on = make_step(strategy, network, tally, args.learning_rate)
    if first < args.steps:
        rounds = training.Rounds(strategy, lambda: make_batches(learning, args, first), step_on, tally)
        ps_train.train(rounds, checkpointer, args, first)
    with training.phase("evaluation"):
        is_false = network(tf.constant(held_out.texts)) > 0
        accuracy = float(tf.reduce_mean(tf.cast(is_false == (held_out.labels == 1), tf.float32)))
    training.report(args.steps, accuracy=accuracy)
    print(f"held-out accuracy {accuracy:.3f} after {args.steps} steps")


if __name__ == "__main__":
    main()
