"""Sets memory growth for all devices, the CPU among them."""

import tensorflow as tf

tf.config.experimental.set_memory_growth(tf.config.list_physical_devices()[0], True)
