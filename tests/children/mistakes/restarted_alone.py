"""Worker 1 dies once, and is restarted alone."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
import os
import signal

for number in range(3000):
    if index == 1 and number == 50 and os.environ["CLUSTERKIT_ATTEMPT"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    strategy.reduce("SUM", tf.ones([64]), axis=None)
