"""Makes fewer steps in the worker than in the chief, whose gradients are then too few for a step."""

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
hook = optimizer.make_session_run_hook(kind == "chief", num_tokens=0)
filters = tf.ConfigProto(device_filters=["/job:ps", here])
with tf.train.MonitoredTrainingSession(server.target, kind == "chief", config=filters, hooks=[hook]) as session:
    for _ in range(20 if kind == "chief" else 5):
        session.run(train)
