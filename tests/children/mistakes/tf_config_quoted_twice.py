"""Writes TF_CONFIG as JSON inside of JSON."""

import json
import os

import tensorflow as tf

os.environ["TF_CONFIG"] = json.dumps(os.environ["TF_CONFIG"])
strategy = tf.distribute.MultiWorkerMirroredStrategy()
