"""A server for the task that flags name, which nobody gives."""

import argparse

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
arguments = parser.parse_args()
cluster = tf.train.ClusterSpec({"ps": ["localhost:2222"], "worker": ["localhost:2223", "localhost:2224"]})
tf.distribute.Server(cluster, job_name=arguments.job_name, task_index=arguments.task_index).join()
