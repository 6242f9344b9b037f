"""Distributes with keras.distribution, which needs JAX."""

import json
import os

import keras

config = json.loads(os.environ["TF_CONFIG"])
workers = config["cluster"]["worker"]
keras.distribution.initialize(workers[0], len(workers), config["task"]["index"])
