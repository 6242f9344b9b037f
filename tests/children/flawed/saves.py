"""A loop that saves in a format of its own, right but for the flaw that is named: `saves.py FLAW`, or without any."""

import os
import sys

import numpy as np
import tensorflow as tf

from clusterkit import training

FLAW = sys.argv[1] if len(sys.argv) > 1 else ""
STEPS, EVERY = 30, 5
strategy = tf.distribute.MultiWorkerMirroredStrategy()
leads = training.task_index() == 0
made = np.random.default_rng(0)
x = made.normal(size=(STEPS, 16, 8)).astype("float32")
with strategy.scope():
    weight = tf.Variable(np.ones((8, 1), "float32"))
    optimizer = tf.keras.optimizers.SGD(0.01)
    optimizer.build([weight])
path = os.path.join(training.checkpoint_dir(), "state.npz")


def replica(rows):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((rows @ weight) ** 2) / 16
    optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
    return loss


@tf.function
def step(rows):
    return strategy.reduce("SUM", strategy.run(replica, args=(rows,)), axis=None)


def save(number):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    target = path if FLAW == "written_in_place" else f"{path}.{training.task_index()}.npz"
    with open(target, "wb") as file:
        np.savez(file, weight=weight.numpy(), number=number)
        if FLAW != "renamed_before_it_is_on_the_disk":
            file.flush()
            os.fsync(file.fileno())
    if target != path:
        os.replace(target, path)


done = 0
if os.path.exists(path):
    with np.load(path) as saved:
        weight.assign(saved["weight"])
        done = 0 if FLAW == "step_not_restored" else int(saved["number"])
        optimizer.iterations.assign(done)
data = tf.data.Dataset.from_tensor_slices(x.reshape(-1, 8)).batch(16)
for number, rows in enumerate(strategy.experimental_distribute_dataset(data), 1):
    if number <= done:
        continue
    loss = float(step(rows))
    training.report(step=number, loss=loss)
    if number % EVERY == 0 and (leads or FLAW == "saved_by_all_workers"):
        save(number)
