"""Gives Keras 2 a dataset that is distributed already."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = tf.data.Dataset.from_tensor_slices((tf.ones((32, 4)), tf.ones((32, 1)))).batch(8)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(strategy.experimental_distribute_dataset(data), epochs=2, verbose=0)
