"""The strategy has two devices, and the model is created outside its scope."""

import tensorflow as tf

cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(tf.ones((64, 4)), tf.ones((64, 1)), batch_size=8 * strategy.num_replicas_in_sync, epochs=2, verbose=2)
print("trained on", model.distribute_strategy.num_replicas_in_sync, "device")
