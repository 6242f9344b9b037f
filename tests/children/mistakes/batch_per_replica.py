"""The batches have the size of one worker's share, and the strategy divides them once more."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
batch_size_per_replica = 8
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
dataset = tf.data.Dataset.from_tensor_slices((tf.ones((64, 4)), tf.ones((64, 1)))).batch(batch_size_per_replica)
model.fit(dataset, epochs=2, verbose=2)
