"""Runs a collective operation in sessions of servers that have no common leader."""

import json
import os

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import collective_ops

tf.disable_v2_behavior()
config = json.loads(os.environ["TF_CONFIG"])
index = config["task"]["index"]
server = tf.distribute.Server(config["cluster"], job_name="worker", task_index=index)
with tf.device(f"/job:worker/task:{index}/device:CPU:0"):
    total = collective_ops.all_reduce(tf.constant([1.0]), 2, 4, 11, "Add", "Id")
tf.Session(server.target).run(total)
