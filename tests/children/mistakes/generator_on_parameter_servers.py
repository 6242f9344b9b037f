"""`fit` of Keras 2 under ParameterServerStrategy, with a generator."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")


def rows():
    while True:
        yield tf.ones((8, 3)).numpy(), tf.ones((8, 1)).numpy()


model.fit(rows(), epochs=2, steps_per_epoch=2)
