"""A batch that has fewer rows than there are workers."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensor_slices((tf.ones((3, 3)), tf.ones((3, 1)))).batch(1)
model.fit(data, epochs=2)
