"""A stateful layer is built for the global batch, of which each replica gets a half."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    layers = [tf.keras.Input(batch_shape=(8, 5, 4)), tf.keras.layers.GRU(3, stateful=True), tf.keras.layers.Dense(1)]
    model = tf.keras.Sequential(layers)
    model.compile("sgd", "mse")
model.fit(tf.ones((64, 5, 4)), tf.ones((64, 1)), batch_size=8)
