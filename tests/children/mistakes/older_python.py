"""Was written for Python 2."""

import tensorflow as tf

for step in xrange(10):  # noqa: F821
    print(step, tf.constant(1.0))
