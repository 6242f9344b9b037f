"""Each replica changes rows of a variable."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    centers = tf.Variable(tf.zeros((10, 4)), trainable=False, aggregation=tf.VariableAggregation.MEAN)


def step():
    centers.scatter_update(tf.IndexedSlices(tf.ones((2, 4)), tf.constant([0, 1])))


strategy.run(step)
