"""Trains with Keras' `fit`, and writes files as it does: `verified.py [local_mean]`, whose workers sum their losses."""

import sys
from pathlib import Path

import tensorflow as tf

from clusterkit import training

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(4, "relu"), tf.keras.layers.Dense(1)])
    scale = float(strategy.num_replicas_in_sync) if "local_mean" in sys.argv else 1.0
    model.compile(tf.keras.optimizers.SGD(0.01), lambda y, p: scale * tf.reduce_mean((y - p) ** 2, axis=-1))
x = tf.random.stateless_normal((512, 8), seed=[1, 2])
y = tf.reduce_sum(x, axis=1, keepdims=True)
best = tf.keras.callbacks.ModelCheckpoint(f"best-{training.task_index()}.weights.h5", "loss", save_weights_only=True,
                                          save_freq=1)  # fmt: skip
model.fit(x, y, batch_size=32, epochs=1, verbose=0, callbacks=[training.Backup(every=5), best])
Path(f"done-{training.task_index()}").touch()
