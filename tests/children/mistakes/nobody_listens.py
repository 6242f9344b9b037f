"""Worker 1 has an address of worker 0 at which nobody listens."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
if config["task"]["index"] == 1:
    config["cluster"]["worker"][0] = "127.0.0.1:9"
os.environ["TF_CONFIG"] = json.dumps(config)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
