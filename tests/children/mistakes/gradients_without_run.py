"""Computes gradients under the strategy's scope, but not in strategy.run."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    weight = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        loss = weight * 2.0
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(tf.ones((8, 4))))
    tape.gradient(loss, [each.value for each in model.trainable_variables])
