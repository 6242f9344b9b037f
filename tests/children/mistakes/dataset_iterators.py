"""Makes the iterator of a dataset as TensorFlow 1 did."""

import tensorflow as tf

batches = tf.data.Dataset.range(64).batch(8).make_one_shot_iterator()
print(batches.get_next())
