"""Is a chief in a cluster without one."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
config["task"]["type"] = "chief"
os.environ["TF_CONFIG"] = json.dumps(config)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
