"""Starts a server of a task that is not in the cluster."""

import json
import os

import tensorflow as tf

cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
tf.distribute.Server(cluster, job_name="worker", task_index=5)
