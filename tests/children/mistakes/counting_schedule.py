"""A schedule of the learning rate that counts its calls, although the compiled step never calls it again."""

import tensorflow as tf


class Halved(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self):
        self.calls = 0

    def __call__(self, step):
        self.calls += 1
        return 0.1 / (1 + self.calls // 8)

    def get_config(self):
        return {}


with tf.distribute.MirroredStrategy().scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.SGD(Halved()), "mse")
model.fit(tf.ones((64, 4)), tf.ones((64, 1)), batch_size=8, epochs=3, verbose=2)
