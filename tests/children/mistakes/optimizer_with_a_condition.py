"""Accumulates gradients with the optimizer of Keras 3, for two replicas of one process."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.SGD(0.1, gradient_accumulation_steps=2), "mse")
model.fit(tf.ones((16, 4)), tf.ones((16, 1)), batch_size=8)
