"""Writes a TF_CONFIG with single quotes."""

import os

import tensorflow as tf

os.environ["TF_CONFIG"] = str({"cluster": {"worker": ["localhost:23451"]}, "task": {"type": "worker", "index": 0}})
strategy = tf.distribute.MultiWorkerMirroredStrategy()
