"""Opens a session of TensorFlow 1 while the parameter server of its cluster does not run."""

import os
import threading

import tensorflow as tf

v1 = tf.compat.v1
threading.Timer(12, os._exit, (1,)).start()  # as somebody who waits no longer
with tf.Graph().as_default():
    cluster = {"ps": ["localhost:1"], "worker": ["localhost:0"]}
    server = tf.distribute.Server(cluster, job_name="worker", task_index=0)
    with v1.Session(server.target) as session:
        session.run(tf.constant(1.0))
