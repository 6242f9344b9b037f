"""Sets its devices after its strategy has initialized TensorFlow."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
device = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * 2)
