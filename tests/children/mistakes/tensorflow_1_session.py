"""A session of TensorFlow 1."""

import tensorflow as tf

with tf.Session() as session:
    session.run(tf.placeholder(tf.float32))
