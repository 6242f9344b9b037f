"""The batch grows with the workers, and the steps of an epoch are those of one worker."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
batch_size = 8
rows = 320
global_batch_size = batch_size * strategy.num_replicas_in_sync

dataset = tf.data.Dataset.from_tensor_slices((tf.ones((rows, 4)), tf.ones((rows, 1))))
dataset = dataset.shuffle(rows).repeat().batch(global_batch_size)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(dataset, epochs=2, steps_per_epoch=40, verbose=2)
