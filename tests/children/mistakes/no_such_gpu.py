"""A device that the machine does not have."""

import tensorflow as tf

with tf.device("/GPU:0"):
    print(tf.add(tf.ones(()), 1.0))
