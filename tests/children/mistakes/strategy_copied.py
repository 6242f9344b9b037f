"""Copies a strategy."""

import copy

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
print(copy.deepcopy(strategy))
