"""An argument of apply_gradients that Keras 3 does not have."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.optimizer.apply_gradients([], experimental_aggregate_gradients=False)
