"""Backs up a training on parameter servers with Keras's callback."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
dataset = tf.data.Dataset.from_tensors((tf.ones(4), tf.ones(1))).repeat().batch(8)
model.fit(dataset, steps_per_epoch=4, callbacks=[tf.keras.callbacks.BackupAndRestore("backup")])
