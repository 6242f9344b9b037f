"""A layer of Keras 2 says with values of TensorFlow how replicas join a weight."""

import tensorflow as tf


class Mean(tf.keras.layers.Layer):
    """Subtracts a moving mean."""

    def build(self, shape):
        how = tf.VariableAggregation.MEAN
        self.mean = self.add_weight(name="mean", shape=(), initializer="zeros", trainable=False, aggregation=how)

    def call(self, x):
        return x - self.mean


print(tf.keras.Sequential([tf.keras.Input((4,)), Mean()]))
