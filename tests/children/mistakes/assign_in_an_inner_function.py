"""A layer's call is a tf.function of its own, and assigns to a variable whose values are averaged."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


class Mean(tf.keras.layers.Layer):
    """Subtracts a moving mean."""

    def build(self, shape):
        self.mean = self.add_weight(shape=(), initializer="zeros", trainable=False, aggregation="mean")

    @tf.function
    def call(self, x):
        self.mean.assign(0.9 * self.mean + 0.1 * tf.reduce_mean(x))
        return x - self.mean


with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), Mean(), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(tf.ones((64, 4)), tf.ones((64, 1)), batch_size=8)
