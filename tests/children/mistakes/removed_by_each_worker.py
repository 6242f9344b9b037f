"""Every worker removes the directory that they share."""

import os
import shutil

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
os.makedirs("scratch", exist_ok=True)
strategy.reduce("SUM", tf.ones(1), axis=None)
for _ in range(500):  # so that both are at it
    os.makedirs("scratch", exist_ok=True)
    shutil.rmtree("scratch")
