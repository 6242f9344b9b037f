"""Something else listens on its port, and the line of the log with the number of the port is hidden."""

import json
import os
import socket

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf  # noqa: E402

config = json.loads(os.environ["TF_CONFIG"])
other = socket.create_server(("", 0))
config["cluster"]["worker"][config["task"]["index"]] = f"localhost:{other.getsockname()[1]}"
os.environ["TF_CONFIG"] = json.dumps(config)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
