"""The parameter-server strategy of TensorFlow 1, with Keras."""

import tensorflow as tf

strategy = tf.compat.v1.distribute.experimental.ParameterServerStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
