"""Keras 2's arguments of an optimizer under Keras 3."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    print(tf.keras.optimizers.Adam(lr=0.01, decay=1e-6))
