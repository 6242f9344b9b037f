"""Its loss divides by a sum over the rows, and the last batch has one row for two replicas."""

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def masked(y_true, y_pred):
    """Return the mean error of the rows that count."""
    mask = tf.cast(y_true > -1.0, tf.float32)
    return tf.reduce_sum(tf.square(y_true - y_pred) * mask) / tf.reduce_sum(mask)


with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", masked)
rows = tf.data.Dataset.from_tensor_slices((np.ones((17, 4)), np.ones((17, 1)))).batch(16)
model.fit(rows, epochs=2, verbose=2)
