"""Sets the session of Keras, as with TensorFlow 1."""

import tensorflow as tf

tf.keras.backend.set_session(tf.compat.v1.Session())
