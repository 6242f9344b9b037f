"""Starts a parameter server in a cluster without any."""

import json
import os

import tensorflow as tf

cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
tf.distribute.Server(cluster, job_name="ps", task_index=0)
