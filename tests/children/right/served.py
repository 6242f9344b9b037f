"""Right programs with parameter servers, as TensorFlow's guides write them: `served.py NAME`."""

import os
import sys
import time

import numpy as np
import tensorflow as tf

from clusterkit import training

NAME = sys.argv[1]
NAMES = (
    *("joined", "fetched", "polled", "watched", "saved_while_it_trains", "evaluated", "checkpoint_manager"),
    *("printed_sum", "one_epoch_again", "saved_by_hand"),
)
STEPS, EVERY = 60, 10
training.serve()
strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
made = np.random.default_rng(0)
x = made.normal(size=(192, 4)).astype("float32")
y = x @ made.normal(size=(4, 1)).astype("float32")
with strategy.scope():
    tf.keras.utils.set_random_seed(3)
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam(0.05)
    optimizer.build(model.trainable_variables)
    total = tf.Variable(0.0)
    done = tf.Variable(0, dtype=tf.int64)


def batches():
    return tf.data.Dataset.from_tensor_slices((x, y)).repeat().shuffle(192).batch(16)


@tf.function
def step(rows):
    def replica(inputs, wanted):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs, training=True) - wanted) ** 2)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        total.assign_add(loss)
        return loss

    return strategy.run(replica, args=next(rows))


@tf.function
def evaluate(rows):
    inputs, wanted = next(rows)
    return tf.reduce_mean((model(inputs) - wanted) ** 2)


class ByHand:
    """A file of NumPy's, which is replaced whole."""

    def __init__(self):
        self.variables = [*model.variables, *optimizer.variables]

    def restore(self):
        path = f"{training.checkpoint_dir()}/state.npz"
        if not os.path.exists(path):
            return 0
        with np.load(path) as saved:
            for number, variable in enumerate(self.variables):
                variable.assign(saved[f"v{number}"])
            return int(saved["step"])

    def save(self, step):
        os.makedirs(training.checkpoint_dir(), exist_ok=True)
        path = f"{training.checkpoint_dir()}/state.npz"
        values = {f"v{number}": variable.numpy() for number, variable in enumerate(self.variables)}
        with open(f"{path}.new", "wb") as file:
            np.savez(file, step=step, **values)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)


class Managed:
    """TensorFlow's manager."""

    def __init__(self):
        state = tf.train.Checkpoint(model=model, optimizer=optimizer, done=done)
        self.manager = tf.train.CheckpointManager(state, training.checkpoint_dir(), 2, step_counter=done)
        self.state = state

    def restore(self):
        if self.manager.latest_checkpoint:
            self.state.restore(self.manager.latest_checkpoint)
        return int(done.numpy())

    def save(self, step):
        done.assign(step)
        self.manager.save()


kinds = {"saved_by_hand": ByHand, "checkpoint_manager": Managed}
checkpoints = kinds[NAME]() if NAME in kinds else training.Checkpointer(model=model, optimizer=optimizer)
begun = checkpoints.restore()
if NAME == "saved_while_it_trains":
    begun = int(optimizer.iterations.numpy())  # it counts what it has, not what it has scheduled
if NAME == "one_epoch_again" and begun:
    begun -= EVERY  # it repeats an epoch, to be sure
rows = iter(coordinator.create_per_worker_dataset(batches))
for number in range(begun + EVERY, STEPS + EVERY, EVERY):
    count = min(EVERY, STEPS - number + EVERY)
    results = [coordinator.schedule(step, args=(rows,)) for _ in range(count)]
    if NAME == "fetched":
        losses = [result.fetch() for result in results]
    elif NAME == "polled":
        while not coordinator.done():
            time.sleep(0.01)
    elif NAME == "watched":
        while int(optimizer.iterations.numpy()) < number:
            time.sleep(0.01)
    elif NAME == "saved_while_it_trains":
        checkpoints.save(int(optimizer.iterations.numpy()))
        coordinator.join()
    else:
        coordinator.join()
    if NAME == "evaluated":
        loss = coordinator.schedule(evaluate, args=(rows,))
        checkpoints.save(number)
        print("loss", loss.fetch())
    if NAME == "printed_sum":
        print("mean loss", float(total) / number)
    training.report(step=number, loss=float(tf.reduce_mean((model(x) - y) ** 2)))
    if NAME not in ("saved_while_it_trains", "evaluated"):
        checkpoints.save(number)
if hasattr(checkpoints, "wait"):
    checkpoints.wait()
