"""Places a Python function on worker:0, and calls it from a session of worker:1."""

import json
import os

import tensorflow as tf

tf.compat.v1.disable_eager_execution()
config = json.loads(os.environ["TF_CONFIG"])
index = config["task"]["index"]
cluster = {"worker": config["cluster"]["worker"]}
server = tf.distribute.Server(cluster, job_name="worker", task_index=index)
if index == 0:
    server.join()
with tf.device("/job:worker/task:0"):
    total = tf.py_function(lambda a, b: a + b, [1.0, 2.0], tf.float32)
with tf.compat.v1.Session(server.target) as session:
    session.run(total)
