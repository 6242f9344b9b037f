"""`fit` of Keras 3 on several workers, with a Python generator."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")


def rows():
    while True:
        yield tf.ones((8, 3)).numpy(), tf.ones((8, 1)).numpy()


model.fit(rows(), epochs=2, steps_per_epoch=2)
