"""Takes the name of a pod as the index of its task."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
config["task"]["index"] = f"train-worker-{config['task']['index']}"
os.environ["TF_CONFIG"] = json.dumps(config)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
