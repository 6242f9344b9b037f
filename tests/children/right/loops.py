"""Right programs with a training loop of their own, as TensorFlow's guides write them: `loops.py NAME`."""

import sys

import numpy as np
import tensorflow as tf

from clusterkit import training

NAME = sys.argv[1]
NAMES = (
    *("plain", "normalized", "scheduled", "momentum", "dropped_out", "recurrent", "regularized", "clipped"),
    *("warmed_up_by_hand", "accumulated", "two_optimizers", "counted", "checkpoint_manager", "from_function"),
    *("scaled_with_the_workers", "no_optimizer", "averaged_weights", "noisy"),
)
BATCH, EVERY, TOGETHER = 16, 7, 3
strategy = tf.distribute.MultiWorkerMirroredStrategy()
workers = strategy.num_replicas_in_sync
keras, layers = tf.keras, tf.keras.layers
keras.utils.set_random_seed(44)
made = np.random.default_rng(0)
x = made.normal(size=(192, 6, 2)).astype("float32")
y = np.tanh(x.sum(axis=(1, 2), keepdims=True)[:, 0])
batch = 8 * workers if NAME == "scaled_with_the_workers" else BATCH
rate = 0.005 * workers if NAME == "scaled_with_the_workers" else 0.01
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(192, seed=5).batch(batch, drop_remainder=True)


def sharded(context):
    rows = tf.data.Dataset.from_tensor_slices((x, y)).batch(context.get_per_replica_batch_size(BATCH))
    return rows.shard(context.num_input_pipelines, context.input_pipeline_id)


if NAME == "from_function":
    batches = strategy.distribute_datasets_from_function(sharded)
else:
    batches = strategy.experimental_distribute_dataset(data)

with strategy.scope():
    first = layers.LSTM(6) if NAME == "recurrent" else layers.Flatten()
    penalty = keras.regularizers.L2(1e-3) if NAME == "regularized" else None
    hidden = [layers.Dense(12, "relu", kernel_regularizer=penalty)]
    hidden += [layers.BatchNormalization(synchronized=True)] if NAME == "normalized" else []
    hidden += [layers.Dropout(0.2)] if NAME == "dropped_out" else []
    model = keras.Sequential([keras.Input((6, 2)), first, *hidden, layers.Dense(1)])
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([8, 20], [0.02, 0.01, 0.005])
    if NAME in ("momentum", "scaled_with_the_workers"):
        optimizer = keras.optimizers.SGD(rate, momentum=0.9)
    else:
        optimizer = keras.optimizers.Adam(schedule if NAME == "scheduled" else rate)
    last = model.layers[-1].trainable_variables
    others = [variable for variable in model.trainable_variables if not any(variable is one for one in last)]
    optimizer.build(others if NAME == "two_optimizers" else model.trainable_variables)
    second = keras.optimizers.SGD(0.05)
    second.build(last)
    done = tf.Variable(0, dtype=tf.int64)
    parts = {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.SUM}
    sums = [tf.Variable(tf.zeros(one.shape), trainable=False, **parts) for one in model.trainable_variables]
    averages = [tf.Variable(one, trainable=False) for one in model.trainable_variables]
    metric = keras.metrics.MeanAbsoluteError()


def gradients_of(rows, wanted):
    if NAME == "noisy":
        rows += tf.random.normal(tf.shape(rows), stddev=0.1)
    with tf.GradientTape() as tape:
        found = model(rows, training=True)
        loss = tf.reduce_sum((found - wanted) ** 2) / batch
        if model.losses:
            loss += tf.nn.scale_regularization_loss(tf.add_n(model.losses))
    metric.update_state(wanted, found)
    return loss, tape.gradient(loss, model.trainable_variables)


def replica(rows, wanted):
    loss, gradients = gradients_of(rows, wanted)
    if NAME == "clipped":  # after they are summed over the workers
        gradients = tf.distribute.get_replica_context().all_reduce("SUM", gradients)
        gradients, _ = tf.clip_by_global_norm(gradients, 0.5)
        gradients = [gradient / workers for gradient in gradients]
    if NAME == "accumulated":
        for total, gradient in zip(sums, gradients, strict=True):
            total.assign_add(gradient)
    elif NAME == "two_optimizers":
        count = len(others)
        optimizer.apply_gradients(zip(gradients[:count], others, strict=True))
        second.apply_gradients(zip(gradients[count:], last, strict=True))
    elif NAME == "no_optimizer":
        summed = tf.distribute.get_replica_context().all_reduce("SUM", gradients)
        for variable, gradient in zip(model.trainable_variables, summed, strict=True):
            variable.assign(variable - 0.05 * gradient)
    else:
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    if NAME == "averaged_weights":
        for average, variable in zip(averages, model.trainable_variables, strict=True):
            average.assign(0.9 * average + 0.1 * variable)
    return loss


def update():
    optimizer.apply_gradients(
        [(total / TOGETHER, one) for total, one in zip(sums, model.trainable_variables, strict=True)]
    )
    for total in sums:
        total.assign(tf.zeros_like(total))


@tf.function
def step(rows):
    return strategy.reduce("SUM", strategy.run(replica, args=rows), axis=None)


@tf.function
def apply():
    strategy.run(update)


saved = {"model": model, "optimizer": optimizer, "second": second, "done": done}
saved |= {f"sum{number}": total for number, total in enumerate(sums)} if NAME == "accumulated" else {}
saved |= {f"average{number}": one for number, one in enumerate(averages)}
if NAME == "checkpoint_manager":
    checkpoint = tf.train.Checkpoint(**saved)
    chief = training.task_index() == 0
    place = training.checkpoint_dir() if chief else f"{training.checkpoint_dir()}-of-{training.task_index()}"
    manager = tf.train.CheckpointManager(checkpoint, place, max_to_keep=2, step_counter=done)
    newest = tf.train.latest_checkpoint(training.checkpoint_dir())
    if newest:
        checkpoint.restore(newest)
else:
    checkpoints = training.Checkpointer(**saved)
    checkpoints.restore()

number = 0
for _epoch in range(3):
    for rows in batches:
        number += 1
        if number <= int(done.numpy()):
            continue
        if NAME == "warmed_up_by_hand":
            optimizer.learning_rate.assign(0.01 * min(1.0, number / 10))
        loss = step(rows)
        if NAME == "accumulated" and number % TOGETHER == 0:
            apply()
        done.assign(number)
        if NAME != "counted":
            training.report(step=number, loss=float(loss))
        if number % EVERY == 0 and NAME == "checkpoint_manager":
            manager.save()
        elif number % EVERY == 0:
            checkpoints.save(number)
    metric.reset_state()
if NAME != "checkpoint_manager":
    checkpoints.wait()
