"""Has one optimizer for two models."""

import tensorflow as tf

models = [tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)]) for _ in range(2)]
optimizer = tf.keras.optimizers.SGD()
for model in models:
    optimizer.apply_gradients((weight, weight) for weight in model.trainable_variables)
