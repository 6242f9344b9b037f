"""`fit` on arrays without a seed and with a log, in every worker; given `-`, with a seed and without a log."""

import sys

import numpy as np
import tensorflow as tf

from clusterkit import training

callbacks = [] if sys.argv[1] == "-" else [tf.keras.callbacks.CSVLogger(sys.argv[1])]
if not callbacks:
    tf.keras.utils.set_random_seed(7)
strategy = training.strategy()
x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(x, x.sum(axis=1), batch_size=8, verbose=0, callbacks=callbacks)
print("trained", int(model.optimizer.iterations.numpy()))
