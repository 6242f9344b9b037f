"""Writes the TF_CONFIG of a tutorial, with index 0 in every process."""

import json
import os

import tensorflow as tf

os.environ["TF_CONFIG"] = json.dumps(
    {"cluster": {"worker": ["localhost:12345", "localhost:23456"]}, "task": {"type": "worker", "index": 0}}
)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
