"""Fits a tiny model undisturbed and with interruptions, of Keras 2 or 3; says what came of it in one line of JSON."""

import contextlib
import hashlib
import io
import json
import os
import sys

import numpy as np
import tensorflow as tf

from clusterkit import training
from clusterkit.training import keras_callback

KERAS_2 = os.environ.get("TF_USE_LEGACY_KERAS") == "1"
EPOCHS = 3  # of 10 batches
images = np.random.default_rng(0).normal(size=(40, 4)).astype("float32")
sums = images.sum(axis=1, keepdims=True)


class Interrupt(tf.keras.callbacks.Callback):
    """Dies after a step, or stops early after an epoch."""

    def __init__(self, step=None, epoch=None):
        super().__init__()
        self.step, self.epoch, self.batches = step, epoch, 0

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1
        if self.step is not None and int(self.model.optimizer.iterations.numpy()) >= self.step:
            raise KeyboardInterrupt

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = epoch == self.epoch


def make_model(at_once=1):
    tf.keras.utils.set_random_seed(2017)
    layers = tf.keras.layers
    first = layers.InputLayer((4,)) if KERAS_2 else tf.keras.Input((4,))
    noise = [] if KERAS_2 else [layers.Dropout(0.5)]  # Keras 2 keeps the state of its dice where nobody finds it
    model = tf.keras.Sequential([first, layers.Dense(8, "relu"), layers.BatchNormalization(), *noise, layers.Dense(1)])
    model.compile(tf.keras.optimizers.Adam(0.01), "mse", metrics=["mae"], steps_per_execution=at_once)
    return model


def fit(name, every="epoch", at_once=1, **interrupt):
    """A fit in a directory; what it printed, its number of epochs and batches, and a digest of the weights."""
    keras_callback._Fits.done = 0  # as in a process of its own
    keras_callback._Fits.directories.clear()
    model, last = make_model(at_once), Interrupt(**interrupt)
    epochs = None
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(KeyboardInterrupt):
        callbacks = [last, training.Backup(every, directory=sys.argv[1] + "/" + name)]
        if last.step is not None:
            callbacks.reverse()
        history = model.fit(images, sums, 4, EPOCHS, 0, callbacks, shuffle=False)
        epochs = len(history.epoch)
    digest = hashlib.sha256(b"".join(weights.tobytes() for weights in model.get_weights())).hexdigest()
    return {"said": out.getvalue(), "epochs": epochs, "batches": last.batches, "digest": digest}


def look(name):
    """What the evaluator reads of it, with a model alone: the step, and a digest."""
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": ["h:1"]}, "task": {"type": "evaluator", "index": 0}})
    model = make_model()
    step = training.Checkpointer(sys.argv[1] + "/" + name, model=model).restore()
    return step, hashlib.sha256(b"".join(weights.tobytes() for weights in model.get_weights())).hexdigest()


def strict():
    """The steps that a fresh pair of model and optimizer has after a save, with nothing left over or missing."""
    pairs = []
    for _ in range(2):
        model = make_model()
        model.optimizer.build(model.trainable_variables)
        saver = training.Checkpointer(sys.argv[1] + "/strict", model=model, optimizer=model.optimizer)
        pairs.append((model, saver))
    (first, saver), (second, restorer) = pairs
    first.optimizer.apply_gradients([(tf.ones_like(weight), weight) for weight in first.trainable_variables])
    saver.save(int(first.optimizer.iterations.numpy()))
    same = [(mine == theirs).all() for mine, theirs in zip(first.get_weights(), second.get_weights(), strict=True)]
    restored = restorer.restore()
    again = [(mine == theirs).all() for mine, theirs in zip(first.get_weights(), second.get_weights(), strict=True)]
    return restored, bool(all(same)), bool(all(again)), int(second.optimizer.iterations.numpy())


def unbuilt():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    try:
        model.fit(images, sums, verbose=0, callbacks=[training.Backup(directory=sys.argv[1] + "/unbuilt")])
    except ValueError as error:
        return str(error)


seen = {
    "undisturbed": fit("undisturbed"),
    "killed": fit("killed", every=4, step=17),
    "resumed": fit("killed", every=4),
    "over": fit("killed", every=4),
    "killed between": fit("epochs", step=17),
    "resumed at epoch": fit("epochs"),
    "killed by twos": fit("twos", every=4, at_once=2, step=18),
    "resumed by twos": fit("twos", every=4, at_once=2),
    "stopped": fit("stopped", epoch=1),
    "stays stopped": fit("stopped"),
    "unbuilt": unbuilt(),
    "strict": strict(),
    "evaluator": look("killed"),
}
print(json.dumps(seen))
