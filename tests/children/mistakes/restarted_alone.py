"""Worker 1 dies once, and is restarted alone."""

import os
import signal

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id

for number in range(3000):
    if index == 1 and number == 50 and os.environ["CLUSTERKIT_ATTEMPT"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    strategy.reduce("SUM", tf.ones([64]), axis=None)
