"""Builds a graph for a session, as TensorFlow 1 does, whose step trains a model of Keras 3 under a strategy."""

import tensorflow as tf

tf.compat.v1.disable_eager_execution()
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.SGD()


def step() -> None:
    """Train on one batch."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(tf.ones((8, 3))) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


with strategy.scope():
    strategy.run(step)
