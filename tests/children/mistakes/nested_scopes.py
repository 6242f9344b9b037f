"""Opens the scope of another strategy inside the scope of its strategy."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
with strategy.scope():
    with tf.distribute.MirroredStrategy().scope():
        variable = tf.Variable(1.0)
