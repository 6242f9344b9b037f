"""A training loop of its own, right but for the flaw that is named: `loop.py FLAW`, or without any."""

import json
import os
import sys

import numpy as np
import tensorflow as tf

from clusterkit import training

FLAW = sys.argv[1] if len(sys.argv) > 1 else ""
ROWS, BATCH, EPOCHS, EVERY = 201 if FLAW == "last_batch_is_uneven" else 192, 16, 3, 5
strategy = tf.distribute.MultiWorkerMirroredStrategy()
workers, me = strategy.num_replicas_in_sync, training.task_index()
tf.keras.utils.set_random_seed(1)
made = np.random.default_rng(me if FLAW == "data_of_another_seed_in_each_worker" else 0)
x = made.normal(size=(ROWS, 8)).astype("float32")
y = x @ np.random.default_rng(5).normal(size=(8, 1)).astype("float32")
if FLAW == "data_of_another_seed_in_each_worker":
    x = x[made.permutation(ROWS)]

batch = BATCH * workers if FLAW == "batch_grows_with_the_workers" else BATCH
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(ROWS, seed=3, reshuffle_each_iteration=False)
if FLAW == "sharded_twice":
    data = data.shard(workers, me)
data = data.batch(batch, drop_remainder=FLAW not in ("sharded_twice", "last_batch_is_uneven"))
if FLAW == "not_sharded":
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    data = data.with_options(options)
data = strategy.experimental_distribute_dataset(data)


def in_order_of(epoch):
    """The rows in the order of an epoch."""
    order = np.random.default_rng([1, epoch]).permutation(ROWS)
    rows = tf.data.Dataset.from_tensor_slices((x[order], y[order])).batch(batch)
    return strategy.experimental_distribute_dataset(rows)


with strategy.scope():
    normalize = [tf.keras.layers.BatchNormalization(synchronized=FLAW != "normalized_per_worker")]
    dropout = [tf.keras.layers.Dropout(0.3, seed=7)] if FLAW in ("", "random_state_not_saved") else []
    layers = [tf.keras.Input((8,)), tf.keras.layers.Dense(16, "relu"), *normalize, *dropout, tf.keras.layers.Dense(1)]
    model = tf.keras.Sequential(layers)
    rate = tf.keras.optimizers.schedules.ExponentialDecay(0.02, 4, 0.9)
    if FLAW == "rate_times_workers":
        rate = 0.02 * workers
    optimizer = tf.keras.optimizers.Adam(0.02 if FLAW == "schedule_begins_anew" else rate)
    if FLAW != "restored_before_it_is_built":
        optimizer.build(model.trainable_variables)
    done = tf.Variable(0, dtype=tf.int64)
    if FLAW == "own_variable_not_saved":
        warmth = tf.Variable(0.1, trainable=False, name="warmth")
if FLAW == "weights_of_another_seed_in_each_worker":
    start = np.random.default_rng(me).normal(size=(8, 16)).astype("float32") / 4
    weight = tf.Variable(start, name="outside")  # not the strategy's


def replica(rows, wanted):
    with tf.GradientTape() as tape:
        losses = (model(rows, training=True) - wanted) ** 2
        if FLAW == "weights_of_another_seed_in_each_worker":
            losses += 0.1 * tf.reduce_mean(rows @ weight, axis=1, keepdims=True) * model(rows, training=True)
        loss = tf.reduce_sum(losses) / batch
        if FLAW == "loss_of_the_local_batch":
            loss = tf.reduce_mean(losses)
        if FLAW == "last_batch_is_uneven":
            loss = tf.reduce_mean(losses) / workers
        if FLAW == "loss_averaged_twice":
            loss = loss / workers
        if FLAW == "own_variable_not_saved":
            loss = loss * warmth
    gradients = tape.gradient(loss, model.trainable_variables)
    if FLAW == "clipped_per_worker":
        gradients, _ = tf.clip_by_global_norm(gradients, 0.3)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@tf.function
def step(rows):
    return strategy.reduce("SUM", strategy.run(replica, args=rows), axis=None)


def saved():
    everything = {"model": model, "optimizer": optimizer, "done": done}
    if FLAW == "optimizer_not_saved":
        del everything["optimizer"]
    if FLAW == "moving_averages_not_saved":
        return {"done": done, "dense": model.layers[0], "last": model.layers[-1], "optimizer": optimizer}
    if FLAW == "random_state_not_saved":
        return {"done": done, "optimizer": optimizer, **{f"w{n}": v for n, v in enumerate(model.weights)}}
    if FLAW == "state_for_each_worker":
        everything["counts"] = tf.Variable(tf.zeros(workers), name="counts")
    return everything


checkpoints = training.Checkpointer(**saved(), keep=3)
checkpoints.restore()
if FLAW == "restored_before_it_is_built":
    with strategy.scope():
        optimizer.build(model.trainable_variables)
if FLAW == "iterations_not_restored":
    optimizer.iterations.assign(0)
first = 0 if FLAW == "epochs_counted_anew" else int(done.numpy())
number = int(done.numpy()) if FLAW == "epochs_counted_anew" else 0
log = os.path.join(training.checkpoint_dir(), os.pardir, "log.csv")
logs = me == 0 and FLAW in ("rows_logged_twice", "log_written_anew")
highest = -float("inf")
if FLAW == "log_written_anew" and logs:
    open(log, "w").close()
started = 0 if FLAW == "order_of_epochs_since_the_start" else None
for epoch in range(EPOCHS):
    if started is not None:
        if epoch < first // (ROWS // BATCH):
            number += ROWS // BATCH
            continue
        data = in_order_of(started)
        started += 1
    for rows in data:
        number += 1
        if number <= first and FLAW not in ("data_begins_anew", "epochs_counted_anew"):
            continue
        if FLAW == "data_begins_anew":
            number = int(done.numpy()) + 1
            if number > EPOCHS * ROWS // BATCH:
                break
        if FLAW == "schedule_begins_anew":
            optimizer.learning_rate.assign(0.02 * 0.9 ** ((number - first) / 4))
        loss = float(step(rows))
        if FLAW == "own_variable_not_saved":
            warmth.assign(warmth * 1.05)
        done.assign(number)
        if FLAW == "highest_of_this_process" and me == 0:
            highest = max(highest, loss)
            with open(os.path.join(os.path.dirname(log), "losses.json"), "w") as file:
                json.dump({"highest": highest, "step": number}, file)
        if logs or FLAW == "log_of_all_workers":
            with open(log, "a") as file:
                file.write(f"{number},{loss}\n")
        training.report(step=number, loss=loss)
        if number % EVERY == 0:
            checkpoints.save(number)
checkpoints.wait()
print("done", os.path.basename(__file__))
