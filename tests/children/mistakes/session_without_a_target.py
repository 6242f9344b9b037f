"""Opens a session of its own, in which the parameter server of its variables does not exist."""

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
    weight = tf.get_variable("weight", [2, 2])
tf.Session().run(weight.initializer)
