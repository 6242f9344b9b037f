"""A layer adds a metric as in Keras 2."""

import tensorflow as tf


class M(tf.keras.layers.Layer):
    def call(self, x):
        self.add_metric(tf.reduce_mean(x), name="m")
        return x


tf.keras.Sequential([M()])(tf.ones((2, 2)))
