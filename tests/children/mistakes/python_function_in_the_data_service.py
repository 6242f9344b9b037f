"""Reads a dataset from a generator through a data service of another process."""

import json
import os

import tensorflow as tf

PORT = 25150
service = tf.data.experimental.service
if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=PORT))
    service.WorkerServer(service.WorkerConfig(dispatcher_address=f"localhost:{PORT}")).join()
data = tf.data.Dataset.from_generator(lambda: iter(range(20)), output_signature=tf.TensorSpec((), tf.int64))
data = data.apply(service.distribute(processing_mode="parallel_epochs", service=f"grpc://localhost:{PORT}"))
for row in data:
    print(row.numpy())
