"""Starts no thread that gives the tokens of SyncReplicasOptimizer to the tasks."""

import json
import os

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
config = json.loads(os.environ["TF_CONFIG"])
kind, index = config["task"]["type"], config["task"]["index"]
server = tf.train.Server(config["cluster"], kind, index)
if kind == "ps":
    server.join()
here = f"/job:{kind}/task:{index}"
with tf.device(tf.train.replica_device_setter(worker_device=here, cluster=config["cluster"])):
    step = tf.train.get_or_create_global_step()
    loss = tf.get_variable("weight", []) ** 2
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 2, 2)
    train = optimizer.minimize(loss, global_step=step)
with tf.train.MonitoredTrainingSession(server.target, kind == "chief") as session:
    session.run(train)
