"""Backs up a model that is on parameter servers."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
    model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensor_slices((tf.ones([8, 4]), tf.ones([8, 1]))).batch(4).repeat()
model.fit(data, steps_per_epoch=2, callbacks=[tf.keras.callbacks.BackupAndRestore("./backup")])
