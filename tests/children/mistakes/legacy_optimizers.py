"""Keras 2's legacy optimizers under Keras 3."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    print(tf.keras.optimizers.legacy.Adam())
