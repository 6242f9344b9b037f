"""Calls its first worker a leader."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
config["cluster"]["leader"] = config["cluster"]["worker"][:1]
os.environ["TF_CONFIG"] = json.dumps(config)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
