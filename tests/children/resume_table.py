"""Trains small Keras models unbroken, and broken at some place and resumed, and writes what came of both.

    python resume_table.py DIRECTORY CASE...

Alone, or as a worker among others. A case is `feature/place/callback`. What breaks it is an exception in every worker;
what a process keeps in its memory is then made as in a new one.
"""

import contextlib
import io
import json
import os
import random
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

from clusterkit import training
from clusterkit.training import keras_callback
from clusterkit.training.background import CheckpointNotSaved
from clusterkit.training.checkpoint_store import CheckpointStore

keras, layers = tf.keras, tf.keras.layers
ROWS, BATCH, EPOCHS = 40, 8, 3  # five batches in an epoch
drawn = np.random.default_rng(3)
X = drawn.normal(size=(ROWS, 5)).astype("float32")
Y = X.sum(axis=1, keepdims=True) + drawn.normal(size=(ROWS, 1)).astype("float32")


class Broken(Exception):
    """Ends a fit as a kill does."""


class Break(keras.callbacks.Callback):
    """Ends a fit at a place: `epoch.batch`, `validation`, `between` epochs, or nowhere."""

    def __init__(self, place):
        super().__init__()
        self.place, self.epoch, self.batches = place, 0, 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1
        if self.place[0].isdigit() and (self.epoch + 1, batch + 1) >= tuple(map(int, self.place.split("."))):
            raise Broken

    def on_test_end(self, logs=None):
        if self.place == "validation" and self.epoch == 1:
            raise Broken

    def on_epoch_end(self, epoch, logs=None):
        if self.place == "between" and epoch == 1:
            raise Broken


class Rivals(keras.Model):
    """Two networks with an optimizer each; the model's own is never used."""

    def __init__(self):
        super().__init__()
        self.one = keras.Sequential([keras.Input((5,)), layers.Dense(4, "tanh"), layers.Dense(1)])
        self.other = keras.Sequential([keras.Input((5,)), layers.Dense(1)])
        self.tracker = keras.metrics.Mean(name="error")

    def compile(self):
        super().compile()
        self.optimizers = [keras.optimizers.Adam(0.02)]
        self.other_optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
        self.error = keras.losses.MeanSquaredError()

    def call(self, x):
        return self.one(x) + self.other(x)

    def train_step(self, data):
        x, y = data
        for network, optimizer in ((self.one, self.optimizers[0]), (self.other, self.other_optimizer)):
            with tf.GradientTape() as tape:
                loss = self.error(y, network(x))
            optimizer.apply(tape.gradient(loss, network.trainable_variables), network.trainable_variables)
        self.tracker.update_state(loss)
        return {"error": self.tracker.result()}


class ScaledByMetrics(keras.Model):
    """Uses the results of its metrics in the next step."""

    def __init__(self):
        super().__init__()
        self.dense, self.scale = layers.Dense(1), self.add_weight(shape=(), initializer="ones", trainable=False)
        self.dense.build((None, 5))
        self.built = True

    def call(self, x):
        return self.dense(x) * self.scale

    def train_step(self, data):
        logs = super().train_step(data)
        self.scale.assign(1.0 + 0.1 * tf.tanh(logs["mae"]) + 0.1 * tf.tanh(logs["loss"]))
        return logs


def scaled_by_metrics():
    model = ScaledByMetrics()
    model.compile(keras.optimizers.Adam(0.02), "mse", metrics=["mae", "mape"])
    return model


class Noise(layers.Layer):
    """Draws from a stateful operation of TensorFlow, whose state nobody can save."""

    def call(self, x):
        return x + 0.1 * tf.random.normal(tf.shape(x))


def network(*hidden, optimizer=None, **options):
    model = keras.Sequential([keras.Input((5,)), *(hidden or [layers.Dense(4, "tanh")]), layers.Dense(1)])
    model.compile(optimizer or keras.optimizers.Adam(0.02), "mse", metrics=["mae", "mape"], **options)
    return model


def rivals():
    model = Rivals()
    model.compile()
    model.built = True
    return model


def arrays(**options):
    return {"x": X, "y": Y, "batch_size": BATCH, **options}


def dataset(seed=None, known=True):
    rows = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(ROWS, seed=seed)
    return {"x": (rows if known else rows.filter(lambda x, y: True)).batch(BATCH)}


class Batches(keras.utils.PyDataset if hasattr(keras.utils, "PyDataset") else keras.utils.Sequence):
    """Shuffles its rows after each epoch, as many do."""

    def __init__(self, shuffles, **options):
        super().__init__(**options)
        self.rows, self.shuffles = np.arange(ROWS), shuffles

    def __len__(self):
        return ROWS // BATCH

    def __getitem__(self, index):
        rows = self.rows[index * BATCH : (index + 1) * BATCH]
        return X[rows], Y[rows]

    def on_epoch_end(self):
        if self.shuffles:
            np.random.shuffle(self.rows)


optimizers = keras.optimizers
schedule = optimizers.schedules.ExponentialDecay(0.1, 3, 0.8)


def accumulating():
    return optimizers.SGD(0.1, gradient_accumulation_steps=2)


# A model, and what is given to `fit`. Only several workers have an order that can be continued without a seed.
FEATURES = {
    "in-order": (network, lambda: arrays(shuffle=False)),
    "arrays": (network, arrays),
    "seeded-dataset": (network, lambda: dataset(seed=4)),
    "dataset": (network, dataset),
    "unknown-number": (network, lambda: dataset(seed=4, known=False)),
    "validation": (network, lambda: arrays(shuffle=False, validation_data=(X[:20], Y[:20]))),
    "normalization": (lambda: network(layers.Dense(4), layers.BatchNormalization(synchronized=True)), arrays),
    "dropout": (lambda: network(layers.Dense(16), layers.Dropout(0.5), layers.GaussianNoise(0.1)), arrays),
    "averages": (lambda: network(optimizer=optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=4)), arrays),
    "schedule": (lambda: network(optimizer=optimizers.SGD(schedule, momentum=0.9)), arrays),
    "loss-scale": (lambda: network(optimizer=optimizers.LossScaleOptimizer(optimizers.SGD(0.1), 64.0, 4)), arrays),
    "accumulation": (lambda: network(optimizer=accumulating()), arrays),
    "several-steps": (lambda: network(steps_per_execution=2), arrays),
    "rivals": (rivals, arrays),
    "metrics-in-step": (scaled_by_metrics, lambda: arrays(shuffle=False)),
    "noise-of-tensorflow": (lambda: network(Noise()), lambda: arrays(shuffle=False)),
    "batches": (network, lambda: {"x": Batches(False), "shuffle": True}),
    "batches-of-workers": (network, lambda: {"x": Batches(False, workers=2), "shuffle": True}),
    "batches-of-shuffled-rows": (network, lambda: {"x": Batches(True), "shuffle": True}),
}
CALLBACKS = {
    "backup": lambda place: training.Backup(2, directory=place, background=False),
    "backup-by-epochs": lambda place: training.Backup(directory=place, background=False),
    "keras": lambda place: keras.callbacks.BackupAndRestore(place),
}


def as_in_a_new_process():
    """Forget what the fits before this one have left: the order of data, seeds, and the steps."""
    keras.utils.set_random_seed(2017)
    if "TF_CONFIG" in os.environ:
        tf.random.set_seed(None)
    keras_callback._Fits.done = 0
    adapters = __import__("keras.src.trainers.data_adapters.array_data_adapter", fromlist=["ArrayDataAdapter"])
    known = adapters.ArrayDataAdapter.get_tf_dataset.__globals__.get("_places")
    if known is not None:
        known.clear()


def fit(strategy, feature, callback, place, directory):
    """A fit, and what came of it: the weights, the last epoch's logs, what was printed, the number of batches."""
    make, given = FEATURES[feature]
    as_in_a_new_process()
    with strategy.scope():
        model = make()
    breaking, saving = Break(place), CALLBACKS[callback](str(directory))
    done, printed = None, io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(Broken, CheckpointNotSaved), unsaved(place):
        history = model.fit(
            epochs=EPOCHS,
            verbose=0,
            callbacks=[saving, breaking] if callback == "keras" else [breaking, saving],
            **given(),
        )
        done = {name: values[-1] for name, values in history.history.items()}
    weights = [strategy.experimental_local_results(weight.value)[0].numpy() for weight in model.weights]
    return weights, done, printed.getvalue(), breaking.batches


@contextlib.contextmanager
def unsaved(place):
    """Break where the third checkpoint is about to get its name, which the chief does; the other workers go with it."""
    publish, begin = CheckpointStore.publish, training.Checkpointer._begin
    left = [3]

    def breaking_publish(self, staged, step):
        if left[0] == 0:
            raise Broken
        return publish(self, staged, step)

    def breaking_begin(self, step, wait):
        left[0] -= 1
        begin(self, step, wait)
        if left[0] == 0 and not training.is_chief():
            raise Broken

    if place == "saving":
        CheckpointStore.publish, training.Checkpointer._begin = breaking_publish, breaking_begin
    try:
        yield
    finally:
        CheckpointStore.publish, training.Checkpointer._begin = publish, begin


def main():
    """Run the cases; one line of JSON for each."""
    directory, *names = sys.argv[1:]
    in_cluster = "TF_CONFIG" in os.environ
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if in_cluster else tf.distribute.get_strategy()
    unbroken = {}
    out = Path(directory, os.environ.get("CLUSTERKIT_TASK", "alone"))
    out.parent.mkdir(parents=True, exist_ok=True)
    shared = Path(directory, "checkpoints")
    with out.open("w") as lines:
        for name in names:
            feature, place, callback = name.split("/")
            if (feature, callback) not in unbroken:
                unbroken[feature, callback] = fit(
                    strategy, feature, callback, "nowhere", shared / f"{feature}-{callback}"
                )
            whole, logs, notices, batches = unbroken[feature, callback]
            kept = shared / name.replace("/", "-")
            _, broken, _, before = fit(strategy, feature, callback, place, kept)
            weights, done, printed, after = fit(strategy, feature, callback, "nowhere", kept)
            apart = max(float(np.abs(one - other).max()) for one, other in zip(whole, weights))
            logs_apart = max(abs(float(logs[key]) - float(done[key])) for key in logs)
            found = {"case": name, "broken": broken is None, "apart": apart, "logs": logs_apart, "notices": notices}
            print(
                json.dumps({**found, "batches": [batches, before, after], "printed": printed}), file=lines, flush=True
            )
    if in_cluster:
        strategy.reduce("SUM", tf.ones(()), axis=None)


if __name__ == "__main__":
    random.seed(0)
    main()
