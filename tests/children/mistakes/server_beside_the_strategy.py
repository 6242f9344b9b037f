"""Each worker starts a server at its address, where the strategy starts one itself."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
cluster, task = tf.train.ClusterSpec(config["cluster"]), config["task"]
server = tf.distribute.Server(cluster, job_name=task["type"], task_index=task["index"])
strategy = tf.distribute.MultiWorkerMirroredStrategy()
