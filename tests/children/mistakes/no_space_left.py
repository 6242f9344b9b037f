"""Writes to a disk that is full."""

import tensorflow as tf

tf.io.write_file("/dev/full", "1" * 100000)
