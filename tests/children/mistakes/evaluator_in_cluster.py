"""Has an evaluator among the tasks of its cluster, and two of them."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
config["cluster"]["evaluator"] = ["localhost:23451"]
os.environ["TF_CONFIG"] = json.dumps(config)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
