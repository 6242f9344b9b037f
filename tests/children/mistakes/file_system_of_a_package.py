"""Reads from a file system that TensorFlow knows only with another package."""

import tensorflow as tf

print(tf.io.read_file("s3://bucket/data.csv"))
