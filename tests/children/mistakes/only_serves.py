"""The workers serve, and the program would train in a chief, which the job does not have."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
if config["task"]["type"] != "chief":
    cluster = tf.train.ClusterSpec(config["cluster"])
    server = tf.distribute.Server(cluster, job_name=config["task"]["type"], task_index=config["task"]["index"])
    server.join()

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
