"""Minimizes a tensor with an optimizer of TensorFlow 1."""

import tensorflow as tf

weight = tf.Variable(1.0)
loss = weight * weight
tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss)
