"""Makes a placeholder while eager execution is on."""

import tensorflow as tf

rows = tf.compat.v1.placeholder(tf.float32, [None, 4])
