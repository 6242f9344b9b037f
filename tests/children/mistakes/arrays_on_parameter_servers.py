"""`fit` of Keras 2 under ParameterServerStrategy, with arrays."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(tf.ones((16, 3)).numpy(), tf.ones((16, 1)).numpy(), epochs=2, steps_per_epoch=2)
