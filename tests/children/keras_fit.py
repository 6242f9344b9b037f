"""Trains small Keras models, each in its own way, and writes what came out: alone, or as a worker among others.

    python keras_fit.py DIRECTORY [CASE...]

The data, its order and the batches are the same in either case; so has to be what is learnt. Where that depends on the
number of replicas, it is two logical devices under MirroredStrategy that learn alone.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

keras = tf.keras
layers = keras.layers
IN_CLUSTER = "TF_CONFIG" in os.environ
BATCH = 16  # rows, of all workers together
ROWS = 53  # three batches and five rows: more for one worker than for another, and none for some of four
LESS = 49  # three batches and a row, of which all workers but one have none

drawn = np.random.default_rng(2017)
X = drawn.normal(size=(ROWS, 6)).astype("float32")
IMAGES = drawn.normal(size=(ROWS, 6, 6, 2)).astype("float32")
WORDS = drawn.integers(1, 20, size=(ROWS, 7))
Y = (X @ drawn.normal(size=(6, 3)) + IMAGES[:, :3, 0, 0]).argmax(axis=1)
WEIGHTS = drawn.uniform(0.2, 3.0, size=ROWS).astype("float32")


class Curve(keras.callbacks.Callback):
    """A callback of the user's own: it notes the learning rate, and how often it is called for a batch."""

    def __init__(self):
        super().__init__()
        self.batches, self.rates = 0, []

    def on_train_batch_end(self, batch, logs=None):
        assert np.isfinite(logs["loss"])
        self.batches += 1

    def on_epoch_end(self, epoch, logs=None):
        self.rates.append(float(self.model.optimizer.learning_rate.numpy()))


class OwnStep(keras.Model):
    """A model with a training step of its own."""

    def __init__(self):
        super().__init__()
        self.hidden, self.out = layers.Dense(5, activation="tanh"), layers.Dense(3)

    def call(self, x):
        return self.out(self.hidden(x))

    def train_step(self, data):
        x, y, _ = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x, y, y_pred)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return self.compute_metrics(x, y, y_pred)


def compiled(model, optimizer, **more):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, **{"metrics": ["accuracy"], **more})
    return model


def dense():
    """Metrics, callbacks that stop and slow the training, validation, sample weights, shuffled rows."""
    model = compiled(keras.Sequential([layers.Dense(8, "relu"), layers.Dense(3)]), keras.optimizers.Adam(0.05))
    curve = Curve()
    callbacks = [
        keras.callbacks.EarlyStopping("val_accuracy", patience=2, restore_best_weights=True),
        keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=1, min_delta=0.13),
        curve,
    ]
    held_out = (X[:21], Y[:21], WEIGHTS[:21])
    fitted = model.fit(X, Y, BATCH, 12, sample_weight=WEIGHTS, validation_data=held_out, callbacks=callbacks, verbose=0)
    return model, {
        **fitted.history,
        "rates": curve.rates,
        "batches": curve.batches,
        "predicted": model.predict(X, BATCH, verbose=0),
    }


def convolution():
    """Class weights, a dataset of the user's own, evaluation."""
    model = keras.Sequential([keras.Input((6, 6, 2)), layers.Conv2D(4, 3, activation="relu"), layers.Flatten()])
    model.add(layers.Dense(3))
    model = compiled(model, keras.optimizers.SGD(0.05, momentum=0.9))
    data = tf.data.Dataset.from_tensor_slices((IMAGES[:LESS], Y[:LESS])).shuffle(LESS, seed=3).batch(BATCH)
    fitted = model.fit(data, epochs=4, class_weight={0: 0.5, 1: 2.0, 2: 1.0}, verbose=0)
    return model, {**fitted.history, "evaluated": model.evaluate(data, verbose=0)}


def normalized_together():
    """Batch normalization with the statistics of the whole batch."""
    model = keras.Sequential([layers.Dense(5), layers.BatchNormalization(synchronized=True, momentum=0.8)])
    model.add(layers.Dense(3))
    model = compiled(model, keras.optimizers.SGD(0.1))
    return model, model.fit(X, Y, BATCH, 4, verbose=0).history


def normalized_apart(rows=48):
    """Batch normalization with each replica's own statistics; as many rows in each."""
    model = keras.Sequential([layers.Dense(5), layers.BatchNormalization(momentum=0.8), layers.Dense(3)])
    model = compiled(model, keras.optimizers.SGD(0.1))
    return model, model.fit(X[:rows], Y[:rows], BATCH, 4, shuffle=False, verbose=0).history


def normalized_without_rows():
    """The same where some replicas have no row of a batch."""
    return normalized_apart(LESS)


def dictionaries():
    """Named inputs and outputs, several losses with weights, a regularizer, clipped gradients, a sparse one too."""
    numbers, words = keras.Input((6,), name="numbers"), keras.Input((7,), dtype="int32", name="words")
    seen = layers.GlobalAveragePooling1D()(layers.Embedding(20, 4)(words))
    both = layers.Concatenate()([layers.Dense(4, kernel_regularizer="l2")(numbers), seen])
    outputs = {"kind": layers.Dense(3, name="kind")(both), "size": layers.Dense(1, name="size")(both)}
    model = keras.Model({"numbers": numbers, "words": words}, outputs)
    losses = {"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "size": "mse"}
    metrics, weights = {"kind": ["accuracy"], "size": ["mae"]}, {"kind": 1.0, "size": 0.3}
    model.compile(keras.optimizers.SGD(0.5, clipnorm=0.05), losses, loss_weights=weights, metrics=metrics)
    inputs, targets = {"numbers": X, "words": WORDS}, {"kind": Y, "size": X.sum(axis=1, keepdims=True)}
    fitted = model.fit(inputs, targets, BATCH, 4, shuffle=False, verbose=0)
    predicted = {f"predicted {name}": value for name, value in model.predict(inputs, BATCH, verbose=0).items()}
    return model, {**fitted.history, **predicted}


def by_hand():
    """A training step of the user's own, and one batch at a time, which every worker gives as a whole."""
    model = compiled(OwnStep(), keras.optimizers.SGD(0.1))
    told = [model.train_on_batch(X[:BATCH], Y[:BATCH]) for _ in range(3)]
    return model, {"told": told, "tested": model.test_on_batch(X[:BATCH], Y[:BATCH])}


# Those that several workers do exactly as one process does, and those that they do as the replicas of one do.
SAME = (dense, convolution, normalized_together, dictionaries, by_hand)
APART = (normalized_apart, normalized_without_rows)


def saved(directory, case, strategy):
    keras.utils.set_random_seed(2017)
    with strategy.scope():
        model, told = case()
    # Each replica's: what they keep for themselves may differ, where it should not.
    values = [strategy.experimental_local_results(weight.value) for weight in model.weights]
    arrays = {f"weight {number}": np.stack(value).mean(axis=0) for number, value in enumerate(values)}
    np.savez(directory / f"{case.__name__}.npz", **arrays, **{key: np.asarray(value) for key, value in told.items()})
    print("done", case.__name__, flush=True)


def alone():
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    replicas = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"], tf.distribute.ReductionToOneDevice())
    return [(case, tf.distribute.get_strategy()) for case in SAME] + [(normalized_apart, replicas)]


def together():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    return [(case, strategy) for case in SAME + APART]


def main():
    from pathlib import Path

    directory = Path(sys.argv[1], os.environ.get("CLUSTERKIT_TASK", "alone"))
    directory.mkdir(parents=True)
    for case, strategy in together() if IN_CLUSTER else alone():
        if not sys.argv[2:] or case.__name__ in sys.argv[2:]:
            saved(directory, case, strategy)
    if IN_CLUSTER:  # nobody ends, and so ends the job, before all have written
        strategy.reduce("SUM", tf.ones(()), axis=None)


if __name__ == "__main__":
    main()
