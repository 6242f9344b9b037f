"""Reads a variable of TensorFlow 1 that nobody has initialized."""

import tensorflow as tf

v1 = tf.compat.v1
with tf.Graph().as_default():
    weight = v1.get_variable("weight", [])
    with v1.Session() as session:
        session.run(weight)
