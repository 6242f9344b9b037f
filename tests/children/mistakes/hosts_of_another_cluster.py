"""Has the names of hosts that do not exist."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
config["cluster"]["worker"] = ["node0.invalid:23451", "node1.invalid:23452"]
os.environ["TF_CONFIG"] = json.dumps(config)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
