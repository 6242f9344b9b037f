"""A step sets a variable of the strategy, which has no aggregation."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"], "CPU:0")
with strategy.scope():
    mean = tf.Variable(0.0)


@tf.function
def step():
    mean.assign(2.0)


strategy.run(step)
