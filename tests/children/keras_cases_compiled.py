"""Options of compile and fit, and callbacks."""

import csv
import os
import tempfile

import numpy as np
from keras_cases import LESS, WEIGHTS, X, Y, classifier, fitted, keras, layers, several, table, together

CASES, case = table()
callbacks = keras.callbacks


def options(more):
    model, history = fitted(classifier(**more), rows=LESS)
    predicted = model.predict(X, batch_size=16, verbose=0)
    return model, {**history, "evaluated": model.evaluate(X, Y, batch_size=16, verbose=0), "predicted": predicted}


several(
    CASES,
    "compile",
    options,
    eagerly={"run_eagerly": True},
    several_steps={"steps_per_execution": 2},
    jit={"jit_compile": True},
    without_scaling={"auto_scale_loss": False},
)


@case
def initial_epoch():
    return fitted(classifier(), epochs=4, initial_epoch=2)


@case
def trained_twice():
    model, _ = fitted(classifier())
    return fitted(model, epochs=1)


@case
def compiled_again():
    model, _ = fitted(classifier())
    model.layers[1].trainable = False
    model.compile(keras.optimizers.Adam(0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return fitted(model, epochs=1)


class Curve(callbacks.Callback):
    """Notes learning rates, and how often it is called for a batch."""

    def __init__(self):
        super().__init__()
        self.batches, self.rates, self.losses = 0, [], []

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1
        self.losses.append(logs["loss"])

    def on_epoch_end(self, epoch, logs=None):
        self.rates.append(float(self.model.optimizer.learning_rate.numpy()))


@case
def callbacks_that_stop_and_slow():
    model, curve = classifier(layers.Dense(8, "relu"), optimizer=keras.optimizers.Adam(0.05)), Curve()
    acting = [
        callbacks.EarlyStopping("val_accuracy", patience=2, restore_best_weights=True),
        callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=1, min_delta=0.13),
        curve,
    ]
    held_out = (X[:21], Y[:21], WEIGHTS[:21])
    model, history = fitted(model, epochs=12, sample_weight=WEIGHTS, validation_data=held_out, callbacks=acting)
    return model, {**history, "rates": curve.rates, "batches": curve.batches, "losses": curve.losses}


@case
def callbacks_that_schedule_and_average():
    model, curve = classifier(optimizer=keras.optimizers.SGD(0.3, use_ema=True, ema_momentum=0.8)), Curve()
    acting = [
        callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5),
        callbacks.SwapEMAWeights(),
        callbacks.TerminateOnNaN(),
        curve,
    ]
    model, history = fitted(model, epochs=3, callbacks=acting)
    return model, {**history, "rates": curve.rates, "batches": curve.batches}


@case
def callbacks_that_write():
    """What is saved is what one process saves."""
    directory = os.path.join(
        tempfile.gettempdir(), f"keras-callbacks-{os.environ.get('CLUSTERKIT_RUN_ID', os.getpid())}"
    )
    saved, log = os.path.join(directory, "best.weights.h5"), os.path.join(directory, "log.csv")
    os.makedirs(directory, exist_ok=True)
    acting = [
        callbacks.ModelCheckpoint(saved, "val_accuracy", save_best_only=True, save_weights_only=True),
        callbacks.CSVLogger(log),
    ]
    model, history = fitted(classifier(), epochs=3, validation_data=(X[:21], Y[:21]), callbacks=acting)
    together()
    with open(log) as file:
        lines = [[float(row[name]) for name in sorted(row)] for row in csv.DictReader(file)]
    best = classifier()
    best.load_weights(saved)
    return best, {**history, "logged": np.array(lines)}
