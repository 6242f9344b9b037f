"""tf.contrib, which TensorFlow 2 does not have."""

import tensorflow as tf

print(tf.contrib.distribute.CollectiveAllReduceStrategy())
