"""A fit that would take ten minutes, since each of its steps takes 2 s, and that saves every fourth step."""

import time

import tensorflow as tf

from clusterkit import training


class Slow(tf.keras.callbacks.Callback):
    """Lets each batch take its time."""

    def on_train_batch_begin(self, batch, logs=None):
        time.sleep(2)


strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
x = tf.random.stateless_normal((4096, 8), seed=[1, 2])
y = tf.reduce_sum(x, axis=1)
model.fit(x, y, batch_size=64, epochs=5, verbose=0, callbacks=[Slow(), training.Backup(every=4)])
