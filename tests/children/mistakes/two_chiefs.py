"""Calls all of its workers chief."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
config["cluster"] = {"chief": config["cluster"]["worker"]}
config["task"]["type"] = "chief"
os.environ["TF_CONFIG"] = json.dumps(config)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
