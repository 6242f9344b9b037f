"""Calls a private method of Keras's callbacks."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
data = tf.data.Dataset.from_tensor_slices((tf.ones((64, 4)), tf.ones((64, 1)))).batch(8)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
callbacks = tf.keras.callbacks.CallbackList([tf.keras.callbacks.ModelCheckpoint("a.keras")], model=model)
callbacks._call_begin_hook("train")
