"""A training with parameter servers, right but for the flaw that is named: `served.py FLAW`, or without any."""

import os
import sys

import numpy as np
import tensorflow as tf

from clusterkit import training

FLAW = sys.argv[1] if len(sys.argv) > 1 else ""
STEPS, EVERY = 60, 10
training.serve()
strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
made = np.random.default_rng(0)
x = made.normal(size=(192, 4)).astype("float32")
y = x @ made.normal(size=(4, 1)).astype("float32")
with strategy.scope():
    weight = tf.Variable(tf.zeros((4, 1)))
    done = tf.Variable(0, dtype=tf.int64)
    optimizer = tf.keras.optimizers.SGD(0.03, momentum=0.5)
    optimizer.build([weight])


def batches():
    return tf.data.Dataset.from_tensor_slices((x, y)).repeat().shuffle(192).batch(16)


@tf.function
def step(rows):
    def replica(inputs, wanted):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((inputs @ weight - wanted) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])

    strategy.run(replica, args=next(rows))
    done.assign_add(1)


saved = {"weight": weight, "done": done, "optimizer": optimizer}
if FLAW == "momentum_not_saved":
    del saved["optimizer"]
checkpoints = training.Checkpointer(**saved)
begun = 0 if FLAW == "nothing_is_restored" else checkpoints.restore()
if FLAW == "weights_begin_anew":
    weight.assign(tf.zeros((4, 1)) + 30)
rows = iter(coordinator.create_per_worker_dataset(batches))
last = begun + STEPS if FLAW == "steps_are_added_after_a_restart" else STEPS
for number in range(begun + EVERY, last + 1, EVERY):
    for _ in range(EVERY):
        coordinator.schedule(step, args=(rows,))
    if FLAW == "saved_before_join":
        checkpoints.save(number)
    coordinator.join()
    training.report(step=number, loss=float(tf.reduce_mean((x @ weight.numpy() - y) ** 2)))
    if FLAW != "saved_before_join":
        checkpoints.save(number)
checkpoints.wait()
print("done", os.path.basename(__file__))
