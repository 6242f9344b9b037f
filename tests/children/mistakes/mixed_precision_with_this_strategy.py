"""Trains with float16 on parameter servers."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
with strategy.scope():
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    tf.keras.layers.Dense(1)(tf.ones((1, 4)))
