"""Calls a function of a SavedModel that was loaded in the strategy's scope, outside of strategy.run."""

import tensorflow as tf


class Scaled(tf.Module):
    """A factor."""

    def __init__(self) -> None:
        """Make the variable."""
        self.factor = tf.Variable([2.0, 3.0])

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def __call__(self, rows: tf.Tensor) -> tf.Tensor:
        """Multiply."""
        return rows * self.factor


tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
tf.saved_model.save(Scaled(), "./saved")
with tf.distribute.MirroredStrategy().scope():
    print(tf.saved_model.load("./saved")(tf.ones((4, 2))))
