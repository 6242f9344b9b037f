"""An optimizer that accumulates gradients, written for an older Keras."""

import tensorflow as tf


class Accumulator(tf.keras.optimizers.Optimizer):
    """Applies the gradients with another optimizer."""

    def __init__(self, optimizer, name="Accumulator", **kwargs):
        super().__init__(name, **kwargs)
        self.inner = optimizer

    def _create_slots(self, variables):
        for variable in variables:
            self.add_slot(variable, "sum")


model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
model.compile(Accumulator(tf.keras.optimizers.Adam()), "mse")
model.fit(tf.ones((32, 4)), tf.ones((32, 1)))
