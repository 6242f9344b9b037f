"""Reads a checkpoint of which only a part was written."""

import os
import tempfile

import tensorflow as tf

prefix = tf.train.Checkpoint(weight=tf.Variable(tf.ones(1000))).write(os.path.join(tempfile.mkdtemp(), "model"))
os.truncate(f"{prefix}.index", 40)
tf.train.Checkpoint(weight=tf.Variable(tf.zeros(1000))).read(prefix)
