"""Worker 0 alone prints a mean of all workers."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
for step in range(4):
    loss = strategy.run(lambda: tf.constant(1.0))
    if index == 0:
        print("loss", strategy.reduce("MEAN", loss, axis=None))
