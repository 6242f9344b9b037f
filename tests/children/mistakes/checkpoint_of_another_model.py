"""Restores a checkpoint whose variable has another shape."""

import os
import tempfile

import tensorflow as tf

prefix = tf.train.Checkpoint(weight=tf.Variable(tf.ones(8))).write(os.path.join(tempfile.mkdtemp(), "model"))
tf.train.Checkpoint(weight=tf.Variable(tf.ones(4))).read(prefix)
