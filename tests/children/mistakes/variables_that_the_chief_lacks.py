"""Names a variable after the time, so the chief does not initialize the worker's."""

import json
import os
import time

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
config = json.loads(os.environ["TF_CONFIG"])
kind, index = config["task"]["type"], config["task"]["index"]
server = tf.train.Server(config["cluster"], kind, index)
if kind == "ps":
    server.join()
with tf.device("/job:ps/task:0"):
    weight = tf.get_variable(f"weight_{time.time_ns()}", [])
    step = tf.train.get_or_create_global_step().assign_add(1)
supervisor = tf.train.Supervisor(is_chief=kind == "chief", saver=None, summary_op=None, recovery_wait_secs=1)
session = supervisor.prepare_or_wait_for_session(server.target)
while session.run(step) < 6000:
    time.sleep(0.02)
