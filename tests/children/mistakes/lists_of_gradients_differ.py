"""Worker 1 has frozen a layer, and has fewer gradients."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
with strategy.scope():
    layers = [tf.keras.layers.Dense(4), tf.keras.layers.Dense(1)]
    layers[0].trainable = index == 0
    model = tf.keras.Sequential(layers)
    model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensor_slices((tf.ones((64, 4)), tf.ones((64, 1)))).batch(8)
model.fit(data, epochs=1, verbose=0)
