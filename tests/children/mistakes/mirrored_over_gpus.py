"""MirroredStrategy over GPUs that the machine does not have."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"])
with strategy.scope():
    print(tf.Variable(0.0))
