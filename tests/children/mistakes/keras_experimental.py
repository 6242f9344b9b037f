"""Uses a schedule under the name that it had in TensorFlow 2.3."""

import tensorflow as tf

print(tf.keras.experimental.CosineDecay(0.1, 100))
