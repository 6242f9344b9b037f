"""Trains a model after another one, each with a strategy of its own."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
for width in (3, 5):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(width), tf.keras.layers.Dense(1)])
        model.compile("adam", "mse")
    model.fit(tf.ones((32, 4)), tf.ones((32, 1)), batch_size=8)
