"""A callback of worker 1 raises."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
data = tf.data.Dataset.from_tensor_slices((tf.ones((64, 4)), tf.ones((64, 1)))).batch(8)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")


class Raise(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if index == 1:
            raise KeyError("val_accuracy")


model.fit(data, epochs=4, verbose=0, callbacks=[Raise()])
