"""Calls `fit` twice, each with a Backup of its own, and dies after a batch: python two_fits.py BATCH (0: never).

Writes what it trained in one line of JSON: the batches of each fit, and a digest of the weights.
"""

import hashlib
import json
import os
import sys

import numpy as np
import tensorflow as tf

from clusterkit import training

keras = tf.keras
left = int(sys.argv[1])
x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
batches = [0, 0]


class Count(keras.callbacks.Callback):
    def __init__(self, which):
        super().__init__()
        self.which = which

    def on_train_begin(self, logs=None):
        self.steps = int(self.model.optimizer.iterations.numpy())

    def on_train_batch_end(self, batch, logs=None):
        global left
        if int(self.model.optimizer.iterations.numpy()) > self.steps:  # not for batches that a resumed fit skips
            self.steps += 1
            batches[self.which] += 1
            left -= 1
            if left == 0:
                print(json.dumps([batches, None]), flush=True)
                os._exit(9)


def digest():
    keras.utils.set_random_seed(3)
    found = []
    for which in range(2):
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile("adam", "mse")
        callbacks = [training.Backup(every=2, background=False), Count(which)]
        model.fit(x, x.sum(axis=1), batch_size=8, epochs=3, shuffle=False, verbose=0, callbacks=callbacks)
        found += [weight.tobytes() for weight in model.get_weights()]
    return hashlib.sha256(b"".join(found)).hexdigest()


found = digest()
print(json.dumps([batches, found]))
