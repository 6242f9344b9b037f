"""Uses the strategy for one device."""

import tensorflow as tf

strategy = tf.distribute.OneDeviceStrategy("/cpu:0")

data = tf.data.Dataset.from_tensor_slices((tf.ones((64, 4)), tf.ones((64, 1)))).batch(8)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(data, epochs=2, verbose=0)
