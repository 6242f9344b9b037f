"""Sets the learning rate as programs for Keras 2 do."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
tf.keras.backend.set_value(model.optimizer.learning_rate, 0.01)
