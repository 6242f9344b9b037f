"""Chooses the GPU that has the number of the task."""

import json
import os

import tensorflow as tf

rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
gpus = tf.config.list_physical_devices("GPU")
tf.config.set_visible_devices(gpus[rank], "GPU")
strategy = tf.distribute.MultiWorkerMirroredStrategy()
