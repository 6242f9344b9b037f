"""A file that only one worker has."""

import os
import tempfile

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
path = os.path.join(tempfile.gettempdir(), f"rows-{os.getpid()}.txt")
if strategy.cluster_resolver.task_id == 0:
    open(path, "w").write("1\n2\n")
for row in tf.data.TextLineDataset(path):
    print(row)
