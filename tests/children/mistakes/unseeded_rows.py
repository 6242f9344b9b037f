"""Each worker shuffles the rows in an order of its own, and then keeps its part of them."""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
x, y = np.ones((64, 4)), np.ones((64, 1))
order = np.random.permutation(64)
model.fit(x[order], y[order], batch_size=8, epochs=2, verbose=2)
