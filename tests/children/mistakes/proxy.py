"""gRPC goes through a proxy."""

import os

os.environ["http_proxy"] = os.environ["https_proxy"] = "http://127.0.0.1:9"
os.environ.pop("no_proxy", None)
os.environ.pop("no_grpc_proxy", None)
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
