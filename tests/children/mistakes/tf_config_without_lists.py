"""Lists the workers as one text."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
config["cluster"]["worker"] = ",".join(config["cluster"]["worker"])
os.environ["TF_CONFIG"] = json.dumps(config)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
