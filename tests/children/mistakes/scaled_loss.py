"""Scales the loss of mixed precision as in Keras 2."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD())
print(optimizer.get_scaled_loss(tf.constant(1.0)))
