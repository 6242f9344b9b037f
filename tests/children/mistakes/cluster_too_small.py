"""Starts the servers of a cluster of its own, which has one address too few."""

import json
import os

import tensorflow as tf

HOSTS = ["localhost:24401", "localhost:24402"]
SERVERS = 1
task = json.loads(os.environ["TF_CONFIG"])["task"]
cluster = tf.train.ClusterSpec({"ps": HOSTS[:SERVERS], "worker": HOSTS[SERVERS:]})
if task["type"] == "ps":
    tf.distribute.Server(cluster, "ps", task["index"]).join()
else:
    tf.distribute.Server(cluster, "worker", task["index"] + (task["type"] == "worker"))
