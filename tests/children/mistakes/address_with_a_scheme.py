"""Gives the workers' names as URLs."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
config["cluster"]["worker"] = ["http://" + one for one in config["cluster"]["worker"]]
os.environ["TF_CONFIG"] = json.dumps(config)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
