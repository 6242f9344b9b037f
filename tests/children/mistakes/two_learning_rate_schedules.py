"""A callback sets the learning rate of an optimizer that has a schedule."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.SGD(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)), "mse")
data = tf.data.Dataset.from_tensor_slices((tf.ones((16, 3)), tf.ones((16, 1)))).batch(8)
model.fit(data, callbacks=[tf.keras.callbacks.LearningRateScheduler(lambda epoch: 0.1)])
