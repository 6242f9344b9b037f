"""Runs a method of Keras that distributes its batch itself in each replica."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")


@tf.function
def step(x, y):
    return strategy.run(model.train_on_batch, args=(x, y))


print(step(tf.ones((8, 4)), tf.ones((8, 1))))
