"""Disables eager execution, so Keras trains in a session that does not know the job in TF_CONFIG."""

import numpy as np
import tensorflow as tf

tf.compat.v1.disable_eager_execution()
with tf.distribute.MirroredStrategy().scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
    model.compile(loss="mse", optimizer="sgd")
model.fit(np.zeros((8, 4), np.float32), np.zeros((8, 1), np.float32), batch_size=4)
