"""Runs a session while eager execution is on."""

import tensorflow as tf

total = tf.constant(1.0) + tf.constant(2.0)
print(tf.compat.v1.Session().run(total))
