"""The optimizer is made in the strategy's scope, the model outside of it."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
with strategy.scope():
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
