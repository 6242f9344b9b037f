"""Trains with Keras, saves with TensorFlow's CheckpointManager, evaluates and exports: `phased_tf.py STEPS`.

It prints what it finds in the checkpoint directory, and at which step it begins.
"""

import os
import sys

import keras
import numpy as np
import tensorflow as tf

from clusterkit.training import report

directory = os.environ["CLUSTERKIT_CHECKPOINT_DIR"]
os.makedirs(directory, exist_ok=True)
print("found", *sorted(name for name in os.listdir(directory) if "ckpt" in name))
model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
rows = np.ones((4, 1), np.float32)
step = tf.Variable(0, dtype=tf.int64)
checkpoint = tf.train.Checkpoint(step=step, model=model)
manager = tf.train.CheckpointManager(checkpoint, directory, max_to_keep=9)
checkpoint.restore(manager.latest_checkpoint)
print("begins at", int(step), flush=True)
while step < int(sys.argv[1]):
    model.fit(rows, rows, verbose=0)
    step.assign_add(1)
    manager.save()
    report(step=int(step))
model.evaluate(rows, rows, verbose=0)
model.save(os.path.join(directory, "model.keras"))
print("saved the model")
