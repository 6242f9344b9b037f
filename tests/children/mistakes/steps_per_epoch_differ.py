"""Worker 1 makes fewer steps per epoch, and has an evaluation after each epoch."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
data = tf.data.Dataset.from_tensor_slices((tf.ones((64, 4)), tf.ones((64, 1)))).batch(8)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(data.repeat(), epochs=2, steps_per_epoch=8 - 4 * index, validation_data=data, verbose=0)
