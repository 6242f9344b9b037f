"""Something else listens on its port."""

import json
import os
import socket

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
other = socket.create_server(("", 0))
config["cluster"]["worker"][config["task"]["index"]] = f"localhost:{other.getsockname()[1]}"
os.environ["TF_CONFIG"] = json.dumps(config)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
