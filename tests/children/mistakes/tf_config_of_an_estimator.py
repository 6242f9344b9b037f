"""Checks its TF_CONFIG as an estimator does: TensorFlow has none any more, and its lines stand for it."""

import json
import os

import tensorflow as tf

print(tf.__version__)
config = json.loads(os.environ["TF_CONFIG"])
if "chief" not in config["cluster"]:
    raise ValueError('If "cluster" is set in TF_CONFIG, it must have one "chief" node.')
