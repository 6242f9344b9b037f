"""Trains a model on 50 rows in one of several ways, and writes its weights: `recorded.py OUT fit`."""

import os
import sys

import numpy as np
import tensorflow as tf

ROWS, BATCH, EPOCHS = 50, 8, 2


class Waiting(tf.keras.callbacks.Callback):
    """A callback of the program's own, which counts."""

    def __init__(self):
        super().__init__()
        self.batches, self.name = 0, "waiting"

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1


def arrays():
    rows = np.random.default_rng(0).normal(size=(ROWS, 4)).astype("float32")
    return rows, rows.sum(axis=1, keepdims=True)


def made(strategy, optimizer):
    with strategy.scope():
        layers = [tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(1)]
        model = tf.keras.Sequential([tf.keras.Input((4,)), *layers])
        model.compile(optimizer, "mse", metrics=["mae"])
    return model


def fit(strategy):
    """Keras's own loop, with arrays that it shuffles, validation and callbacks."""
    model = made(strategy, "adam")
    callbacks = [tf.keras.callbacks.EarlyStopping("loss", patience=3), Waiting()]
    model.fit(*arrays(), batch_size=BATCH, epochs=EPOCHS, verbose=0, validation_data=arrays(), callbacks=callbacks)
    return model.get_weights()


def loop(strategy):
    """A loop of its own with an evaluation after each epoch, in a function whose end drops the model."""
    model = made(strategy, "sgd")
    with strategy.scope():
        optimizer, seen = tf.keras.optimizers.Adam(0.01), tf.Variable(0, name="rows_seen")
    data = tf.data.Dataset.from_tensor_slices(arrays()).shuffle(ROWS).batch(BATCH)
    data = strategy.experimental_distribute_dataset(data)

    @tf.function
    def train(batch):
        def step(rows, sums):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((model(rows, training=True) - sums) ** 2) / BATCH
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss

        return strategy.reduce("SUM", strategy.run(step, args=batch), axis=None)

    @tf.function
    def test(batch):
        loss = strategy.run(lambda rows, sums: tf.reduce_sum((model(rows) - sums) ** 2), args=batch)
        return strategy.reduce("SUM", loss, axis=None)

    for _ in range(EPOCHS):
        for batch in data:
            train(batch)
            seen.assign_add(BATCH)
        print("loss", float(sum(test(batch) for batch in data)), flush=True)
    return model.get_weights()


def called(strategy):
    """Calls `strategy.run` with a function of TensorFlow, outside any other, as often as there are steps."""
    model = made(strategy, "sgd")
    data = tf.data.Dataset.from_tensor_slices(arrays()).batch(BATCH, drop_remainder=True)

    @tf.function
    def step(rows, sums):
        with tf.GradientTape() as tape:
            loss = tf.constant(0.0)
            for row in rows:  # a loop that autograph converts
                loss += tf.reduce_sum(model(row[None]) ** 2)
            loss += tf.reduce_sum((model(rows) - sums) ** 2) / BATCH
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    for batch in strategy.experimental_distribute_dataset(data):
        strategy.run(step, args=batch)
    assert step.experimental_get_tracing_count() <= 1
    return model.get_weights()


def eager(strategy):
    """A loop without functions of TensorFlow, in which a GradientTape watches what it should not watch twice."""
    model = made(strategy, "sgd")
    optimizer = tf.keras.optimizers.SGD(0.01)
    rows, sums = arrays()
    for step in range(4):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(rows) - sums) ** 2)
        assert len(tape.watched_variables()) == 4
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return model.get_weights()


def odd(strategy):
    """What the recorder can't know beforehand: sparse rows, strings, a forked child, no optimizer, XLA, a generator."""
    weight = tf.Variable(tf.zeros([4, 1], tf.bfloat16), name="weight")
    label, late = tf.Variable("text", name="label"), []
    random = tf.random.Generator.from_non_deterministic_state()

    @tf.function(jit_compile=True)
    def compiled(rows):
        def step(rows):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(rows, tf.cast(weight, tf.float32)) - 1.0)
            weight.assign_sub(tf.cast(0.01, tf.bfloat16) * tape.gradient(loss, weight))

        strategy.run(step, args=(rows,))

    @tf.function
    def sparse(rows):
        if not late:
            late.append(tf.Variable(tf.ones([]), name="late"))

        def step(rows):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.sparse.sparse_dense_matmul(rows, tf.cast(weight, tf.float32)))
            return tape.gradient(loss, weight)

        return strategy.run(step, args=(rows,))

    rows = arrays()[0]
    for number in range(3):
        compiled(rows)
        sparse(tf.sparse.from_dense(rows))
        if os.fork() == 0:
            weight.assign(weight * 2)
            os._exit(0)
        os.wait()
    assert label.numpy() == b"text"
    return [weight.numpy().astype("float32"), random.uniform([2]).numpy(), np.random.rand(2)]


if __name__ == "__main__":
    out, way = sys.argv[1:3]
    several = way in ("fit", "loop", "called")
    weights = globals()[way](tf.distribute.MultiWorkerMirroredStrategy() if several else tf.distribute.get_strategy())
    np.savez(f"{out}.{os.environ.get('CLUSTERKIT_TASK', 'alone')}.npz", *weights)
