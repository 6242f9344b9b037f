"""A layer passes the name of its weight first."""

import tensorflow as tf


class M(tf.keras.layers.Layer):
    def build(self, shape):
        self.kernel = self.add_weight("kernel", shape=(4, 4))


M().build((4,))
