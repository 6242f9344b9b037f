"""Compiles the model inside the strategy's scope, but creates it outside."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
with strategy.scope():
    model.compile(tf.keras.optimizers.Adam(), "mse")
data = tf.data.Dataset.from_tensor_slices((tf.ones((16, 3)), tf.ones((16, 1)))).batch(8)
model.fit(data, epochs=2, verbose=0)
