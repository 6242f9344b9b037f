"""Trains an Estimator."""

import tensorflow as tf

config = tf.estimator.RunConfig()
