"""Trains on rows that are shuffled without a seed while the chief does more than the others; writes who saw which rows.

    python agreed_order.py DIRECTORY KIND...

Each kind is trained for three epochs, in a `fit` or in a loop. Before, the chief makes one more dataset in the same
lines and looks at its first batch; in each epoch, it creates one more iterator of the program's dataset.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from clusterkit import training

keras = tf.keras
ROWS, BATCH, EPOCHS = 48, 8, 3
X = np.arange(ROWS, dtype="float32").reshape(-1, 1)
seen = []


def note(rows):
    seen.extend(map(int, rows[:, 0]))
    return np.int64(len(rows))


class Watched(keras.Model):
    """Notes the rows of each step."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        tf.numpy_function(note, [data[0]], tf.int64)
        return super().train_step(data)


class Batches(keras.utils.PyDataset if hasattr(keras.utils, "PyDataset") else keras.utils.Sequence):
    def __len__(self):
        return ROWS // BATCH

    def __getitem__(self, index):
        rows = X[index * BATCH : (index + 1) * BATCH]
        return rows, rows


def shuffled():
    rows = tf.data.Dataset.from_tensor_slices((X, X)).shuffle(ROWS)
    return rows.map(lambda x, y: (x, y)).batch(BATCH)


def nested():
    parts = tf.data.Dataset.range(4)
    rows = parts.flat_map(
        lambda part: (
            tf.data.Dataset.from_tensor_slices((X[:12], X[:12]))
            .shuffle(12)
            .map(lambda x, y: (x + 12.0 * tf.cast(part, tf.float32), y))
        )
    )
    return rows.shuffle(ROWS).batch(BATCH)


def sampled():
    halves = [tf.data.Dataset.from_tensor_slices((half, half)).shuffle(ROWS) for half in (X[:24], X[24:])]
    return tf.data.Dataset.sample_from_datasets(halves).batch(BATCH)


class Look(keras.callbacks.Callback):
    def __init__(self, dataset):
        super().__init__()
        self.dataset = dataset

    def on_epoch_begin(self, epoch, logs=None):
        looked_at(self.dataset)


def looked_at(dataset):
    if training.is_chief() and dataset is not None:
        next(iter(dataset))


def fitted(strategy, epochs, *args, dataset=None, **kwargs):
    with strategy.scope():
        model = Watched()
        # The rows are numbers up to 47: a usual learning rate ends in NaN.
        model.compile(keras.optimizers.SGD(1e-5), "mse")
    if training.is_chief() and args:  # a line that the others do not run
        model.fit(*args, epochs=EPOCHS, verbose=0, callbacks=[Look(dataset), epochs], **kwargs)
    else:
        model.fit(*args, epochs=EPOCHS, verbose=0, callbacks=[epochs], **kwargs)


class Epochs(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.found = []

    def on_epoch_begin(self, epoch, logs=None):
        seen.clear()

    def on_epoch_end(self, epoch, logs=None):
        self.found.append(list(seen))


def looped(strategy, distributed, dataset):
    step = tf.function(
        lambda batch: strategy.run(lambda rows: tf.numpy_function(note, [rows[0]], tf.int64), args=(batch,))
    )
    found = []
    for _ in range(EPOCHS):
        seen.clear()
        looked_at(dataset)
        for batch in distributed:
            step(batch)
        found.append(list(seen))
    return found


def rows_of(strategy, kind):
    """What this worker saw in each epoch."""
    epochs = Epochs()
    make = {"nested": nested, "sampled": sampled}.get(kind.partition("-")[2], shuffled)
    if training.is_chief():
        looked_at(make())
    kind = kind.partition("-")[0]
    if kind == "arrays":
        if training.is_chief():
            alone = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
            alone.compile("sgd", "mse")
            alone.fit(X, X, verbose=0)
        fitted(strategy, epochs, X, X, batch_size=BATCH)
    elif kind == "batches":
        if training.is_chief():
            alone = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
            alone.compile("sgd", "mse")
            alone.fit(Batches(), verbose=0)
        fitted(strategy, epochs, Batches(), shuffle=True)
    elif kind == "fit":
        dataset = make()
        looked_at(dataset)
        fitted(strategy, epochs, dataset, dataset=dataset)
    elif kind == "loop":
        dataset = make()
        looked_at(dataset)
        return looped(strategy, strategy.experimental_distribute_dataset(dataset), dataset)
    elif kind == "function":
        rows = tf.data.Dataset.from_tensor_slices((X, X)).shuffle(ROWS)
        looked_at(rows)

        def sharded(context):
            return rows.shard(context.num_input_pipelines, context.input_pipeline_id).batch(BATCH // 2)

        return looped(strategy, strategy.distribute_datasets_from_function(sharded), rows)
    return epochs.found


def main():
    directory, *kinds = sys.argv[1:]
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    found = {kind: rows_of(strategy, kind) for kind in kinds}
    Path(directory, os.environ["CLUSTERKIT_TASK"]).write_text(json.dumps(found))


main()
