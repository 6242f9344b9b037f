"""Counts its tasks from 1."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
config["task"]["index"] += 1
os.environ["TF_CONFIG"] = json.dumps(config)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
