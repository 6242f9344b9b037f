"""Asks a task for its performance by a name that no name server knows."""

import tensorflow as tf

print(tf.profiler.experimental.client.monitor("grpc://train-worker-1.train.svc.invalid:8466", 100))
