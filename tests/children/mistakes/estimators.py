"""Estimators, which TensorFlow has removed."""

import tensorflow as tf

print(tf.estimator.RunConfig())
