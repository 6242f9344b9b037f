"""The schedule of the tutorial on transformers takes the root of an integer."""

import tensorflow as tf


class Warmup(tf.keras.optimizers.schedules.LearningRateSchedule):
    """Falls with the root of the step."""

    def __call__(self, step):
        return 0.01 * tf.math.rsqrt(step)


strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.Adam(Warmup()), "mse")
model.fit(tf.ones((32, 4)), tf.ones((32, 1)), batch_size=8)
