"""Makes its model outside the scope of the strategy."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(tf.ones((32, 4)), tf.ones((32, 1)), verbose=0)
