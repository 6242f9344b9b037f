"""Trains on a dataset whose third element, the weights of the rows, is None."""

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(3)])
    model.compile("sgd", "mse")
rows = tf.data.Dataset.from_tensor_slices(np.ones((8, 3), np.float32)).batch(4)
model.fit(rows.map(lambda row: (row, row, None)))
