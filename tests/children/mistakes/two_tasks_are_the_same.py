"""Worker 0 has the index 0, both of the others have the index 1."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
config["task"]["index"] = min(config["task"]["index"], 1)
os.environ["TF_CONFIG"] = json.dumps(config)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
