"""A loop outside of the scope in which the optimizer was made, and without strategy.run."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam()
with tf.GradientTape() as tape:
    loss = tf.reduce_mean(model(tf.ones((8, 4))) ** 2)
gradients = tape.gradient(loss, model.trainable_variables)
optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
