"""Wants its index as its first argument."""

import json
import os
import sys

import tensorflow as tf

index = int(sys.argv[1])
os.environ["TF_CONFIG"] = json.dumps(
    {"cluster": {"worker": ["localhost:23451", "localhost:23452"]}, "task": {"type": "worker", "index": index}}
)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
