"""A training with Keras' `fit`, right but for the flaw that is named: `fitted.py FLAW`, or without any."""

import os
import random
import sys

import numpy as np
import tensorflow as tf

from clusterkit import training

FLAW = sys.argv[1] if len(sys.argv) > 1 else ""
strategy = tf.distribute.MultiWorkerMirroredStrategy()
if FLAW not in ("batches_shuffled_by_numpy", "shuffled_by_random"):
    tf.keras.utils.set_random_seed(1)
made = np.random.default_rng(0)
x = made.normal(size=(192, 8)).astype("float32")
y = x @ made.normal(size=(8, 1)).astype("float32")
if FLAW == "shuffled_anew_by_each_process":
    order = np.random.default_rng().permutation(192)
    x, y = x[order], y[order]
if FLAW == "shuffled_by_random":
    order = random.sample(range(192), 192)
    x, y = x[order], y[order]
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(192, seed=3).batch(16)


class Batches(tf.keras.utils.PyDataset):
    """The rows in another order in each epoch."""

    order = np.arange(192)

    def __len__(self):
        return 12

    def __getitem__(self, number):
        rows = self.order[16 * number : 16 * number + 16]
        return x[rows], y[rows]

    def on_epoch_end(self):
        np.random.shuffle(self.order)


if FLAW == "batches_shuffled_by_numpy":
    data = Batches()
with strategy.scope():
    dropout = [] if FLAW == "backup_of_two_fits" else [tf.keras.layers.Dropout(0.2)]
    layers = [tf.keras.layers.Dense(16, "relu"), *dropout, tf.keras.layers.Dense(1)]
    model = tf.keras.Sequential([tf.keras.Input((8,)), *layers])
    if FLAW == "loss_times_workers":
        scale = float(strategy.num_replicas_in_sync)
        model.compile(tf.keras.optimizers.SGD(0.01), lambda a, b: scale * tf.reduce_mean((a - b) ** 2, axis=-1))
    elif FLAW == "rate_of_fit_times_workers":
        model.compile(tf.keras.optimizers.SGD(0.01 * strategy.num_replicas_in_sync), "mse")
    else:
        model.compile(tf.keras.optimizers.Adam(0.01), "mse")

exported = os.path.join(training.checkpoint_dir(), "exported", "model.keras")


def export():
    os.makedirs(os.path.dirname(exported), exist_ok=True)
    path = exported if FLAW == "exported_over_the_old" else f"{exported}.new.keras"
    model.save(path)
    if path != exported:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        os.replace(path, exported)


callbacks = [training.Backup(every=5)]
if FLAW == "patience_begins_anew":
    callbacks.insert(0, tf.keras.callbacks.EarlyStopping("loss", min_delta=99, patience=9))
if FLAW == "plateau_begins_anew":
    callbacks.insert(0, tf.keras.callbacks.ReduceLROnPlateau("loss", min_delta=99, patience=9))
if FLAW == "best_is_forgotten":
    callbacks.insert(0, tf.keras.callbacks.EarlyStopping("loss", mode="max", patience=9, restore_best_weights=True))
if FLAW == "weights_alone_are_restored":
    weights = training.Checkpointer(**{f"w{n}": weight for n, weight in enumerate(model.weights)})
    callbacks = [tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: weights.save(epoch + 1))]
fits = 1
if FLAW == "backup_of_two_fits":
    fits, directory = 2, os.path.join(training.checkpoint_dir(), "backup")
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
if training.task_index() == 0 and FLAW != "backup_of_two_fits":
    callbacks.append(tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: export()))
begun = weights.restore() if FLAW == "weights_alone_are_restored" else 0
steps = None
if FLAW == "steps_divided_by_workers":
    data, steps = data.repeat(), 192 // 16 // strategy.num_replicas_in_sync
for number in range(fits):
    if FLAW == "backup_of_two_fits":
        callbacks = [tf.keras.callbacks.BackupAndRestore(directory)]
    model.fit(data, epochs=3, steps_per_epoch=steps, initial_epoch=begun, verbose=0, callbacks=callbacks)
print("done", os.path.basename(__file__))
