"""Is a distributed program for TensorFlow 1."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
cluster = tf.train.ClusterSpec(config["cluster"])
server = tf.train.Server(cluster, config["task"]["type"], config["task"]["index"])
