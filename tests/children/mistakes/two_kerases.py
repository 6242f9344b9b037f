"""A layer of tf_keras in a model of Keras 3."""

import tensorflow as tf
import tf_keras

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    tf.keras.Sequential([tf.keras.Input((3,)), tf_keras.layers.Dense(1)])
