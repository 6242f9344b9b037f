"""Connects to a task by a name that no name server knows."""

import tensorflow as tf

tf.config.experimental_connect_to_host("train-worker-1.train.svc.invalid:2222")
