"""Places an operation on a GPU that the task does not have."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
tf.config.set_soft_device_placement(False)
with tf.device("/GPU:7"):
    print(tf.matmul(tf.ones((2, 2)), tf.ones((2, 2))))
