"""Restores a checkpoint that was written with other names."""

import os
import tempfile

import tensorflow as tf

prefix = tf.train.Checkpoint(model=tf.Variable(tf.ones(8))).write(os.path.join(tempfile.mkdtemp(), "model"))
tf.train.Checkpoint(net=tf.Variable(tf.ones(8))).read(prefix).assert_consumed()
