"""Gives fit class_weight and a dataset that the program has distributed itself."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = tf.data.Dataset.from_tensor_slices((tf.ones((64, 4)), tf.zeros((64,), tf.int32))).batch(8)
dist = strategy.experimental_distribute_dataset(data)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2, "softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(
    dist,
    class_weight={0: 1.0, 1: 9.0},
)
