"""Sets the TF_CONFIG of a tutorial, with two workers on localhost; nobody starts the second one."""

import json
import os

os.environ["TF_CONFIG"] = json.dumps({
    "cluster": {"worker": ["localhost:12345", "localhost:23456"]},
    "task": {"type": "worker", "index": 0},
})  # fmt: skip

import tensorflow as tf  # noqa: E402

strategy = tf.distribute.MultiWorkerMirroredStrategy()
