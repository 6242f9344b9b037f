"""Trains a model, and copies of it that were saved and loaded, cloned, and pickled; writes what came out.

The first model's step has functions of its own, of which one is compiled by XLA and one is shared with its test step.
"""

import json
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

keras = tf.keras
strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.get_strategy()
keras.utils.set_random_seed(1)
X = np.random.default_rng(0).normal(size=(45, 6)).astype("float32")
Y = (X.sum(axis=1, keepdims=True) > 0).astype("float32")
OPTIONS = {"batch_size": 11, "verbose": 0}


class WithFunctions(keras.Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.accuracy = keras.metrics.BinaryAccuracy(name="accuracy")

    @tf.function(jit_compile=True)
    def compiled_loss(self, x, y):
        return tf.reduce_mean((self(x) - y) ** 2)

    @tf.function
    def shared_loss(self, x, y):
        return tf.reduce_mean((self(x) - y) ** 2)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.shared_loss(x, y) + self.compiled_loss(x, y)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.accuracy.update_state(y, self(x))
        accuracy = tf.cond(loss > 0.0, self.accuracy.result, lambda: tf.constant(0.0))
        return {"loss": loss, "accuracy": accuracy}

    def test_step(self, data):
        x, y = data
        return {"loss": self.shared_loss(x, y)}


def small(kind=keras.Model):
    inputs = keras.Input((6,))
    return kind(inputs, keras.layers.Dense(1)(keras.layers.Dense(4, "tanh")(inputs)))


def fitted(model):
    history = model.fit(X, Y, epochs=2, shuffle=False, **OPTIONS).history
    return {**history, "evaluated": model.evaluate(X, Y, return_dict=True, **OPTIONS)["loss"]}


def main():
    path = f"{sys.argv[1]}/{os.environ.get('CLUSTERKIT_TASK', 'alone').replace(':', '-')}"
    with strategy.scope():
        own, model = small(WithFunctions), small()
        own.compile("sgd", "mse")
        model.compile(keras.optimizers.Adam(0.01), "mse")
    found = {"own": fitted(own), "model": fitted(model)}
    with strategy.scope():
        model.save(f"{path}.keras")
        copies = {
            "loaded": keras.models.load_model(f"{path}.keras"),
            "cloned": keras.models.clone_model(model),
            "pickled": pickle.loads(pickle.dumps(model)),
        }
        copies["cloned"].set_weights(model.get_weights())
        copies["cloned"].compile("sgd", "mse")
    found.update({name: fitted(copy) for name, copy in copies.items()})
    Path(f"{path}.json").write_text(json.dumps(found))


main()
