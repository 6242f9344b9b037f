"""Initializes the variables of each worker only in the chief."""

import json
import os

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
config = json.loads(os.environ["TF_CONFIG"])
kind, index = config["task"]["type"], config["task"]["index"]
server = tf.train.Server(config["cluster"], kind, index)
if kind == "ps":
    server.join()
with tf.device("/job:ps/task:0"):
    shared = tf.get_variable("shared", [])
with tf.device(f"/job:{kind}/task:{index}"), tf.variable_scope("local"):
    copy = tf.get_variable("copy", [])
supervisor = tf.train.Supervisor(
    is_chief=kind == "chief",
    init_op=tf.global_variables_initializer(),
    ready_op=tf.report_uninitialized_variables([shared]),
    saver=None,
    recovery_wait_secs=1,
    summary_op=None,
)
filters = tf.ConfigProto(device_filters=["/job:ps", f"/job:{kind}/task:{index}"])
session = supervisor.prepare_or_wait_for_session(server.target, config=filters)
if kind == "chief":
    server.join()
session.run(copy)
