"""The name of a loss's reduction in Keras 2."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    print(tf.keras.losses.MeanSquaredError(reduction=tf.keras.losses.Reduction.NONE))
