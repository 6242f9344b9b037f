"""Uses the second input of a functional model in the loss, where that input has no value."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    rows, weights = tf.keras.Input((3,)), tf.keras.Input((1,))
    model = tf.keras.Model([rows, weights], tf.keras.layers.Dense(1)(rows))
    model.compile("sgd", lambda y, predicted: tf.reduce_mean(tf.square(y - predicted) * weights))
model.fit([tf.ones((16, 3)), tf.ones((16, 1))], tf.ones((16, 1)), batch_size=8, verbose=0)
