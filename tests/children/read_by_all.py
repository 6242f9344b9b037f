"""Every worker reads what the chief's callbacks write: `read_by_all.py DIRECTORY checkpoint SUFFIX` or `… backup`.

The chief is slow to save and to remove files. Each worker prints a line of JSON; all have to print the same.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras = tf.keras
directory, what = sys.argv[1:3]
is_chief = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0
rows = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((rows, rows.sum(1, keepdims=True))).batch(16)
seen = []


def slow(owner, name, slows=True):
    """Let a function take a second more."""
    plain = getattr(owner, name)

    def slowed(*args, **kwargs):
        if slows:
            time.sleep(1)
        return plain(*args, **kwargs)

    setattr(owner, name, slowed)


class Layer(keras.layers.Dense):
    def save_own_variables(self, store):
        super().save_own_variables(store)
        if is_chief:
            assert list(Path(directory).glob("*.part"))  # the old file is there until the new one is complete
            time.sleep(1)


def make():
    with strategy.scope():
        keras.utils.set_random_seed(2017)
        model = keras.Sequential([keras.Input((4,)), Layer(1)])
        model.compile("sgd", "mse")
    return model


def digest(model):
    return hashlib.sha256(b"".join(each.tobytes() for each in model.get_weights())).hexdigest()[:12]


class Reads(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        other.load_weights(path)
        seen.append(digest(other) == digest(self.model))


class ReadsBefore(keras.callbacks.Callback):
    """Reads what the epoch before has saved. A worker does so when the chief might have saved again."""

    def on_epoch_end(self, epoch, logs=None):
        if epoch:
            time.sleep(0 if is_chief else 2)
            other.load_weights(path)
            seen.append(digest(other))


class OfOneWorker(keras.callbacks.ModelCheckpoint):
    """A callback that only one worker has: nobody waits for it."""


def fit(model, *callbacks, epochs=2):
    history = model.fit(data, epochs=epochs, verbose=0, callbacks=[*callbacks])
    return len(history.epoch)


if what == "checkpoint":
    path = f"{directory}/best{sys.argv[3]}"
    weights = path.endswith(".weights.h5")
    best = keras.callbacks.ModelCheckpoint(path, monitor="loss", save_best_only=True, save_weights_only=weights)
    alone = OfOneWorker(f"{directory}/{'chief' if is_chief else 'other'}.keras")
    model, other = make(), make()
    fit(model, ReadsBefore(), best, Reads(), alone)
    other.load_weights(path)  # tf_keras cannot load into a model that has trained on several workers
    seen.append(digest(other))
else:
    place = f"{directory}/backup"
    slow(sys.modules["keras.src.callbacks.backup_and_restore"].file_utils, "rmtree", is_chief)
    models = [make() for _ in range(4)]  # now, since the workers meet when they make a model
    seen.append(fit(models[0], keras.callbacks.BackupAndRestore(place)))
    seen.append(fit(models[1], keras.callbacks.BackupAndRestore(place), epochs=3))
    seen.append(fit(models[2], keras.callbacks.BackupAndRestore(place, delete_checkpoint=False)))
    if not is_chief:
        time.sleep(2)
    seen.append(fit(models[3], keras.callbacks.BackupAndRestore(place)))  # nothing is left to train
    seen.append(Path(place).exists())
print(json.dumps(seen))
