"""Creates a recurrent layer that keeps its state from batch to batch, under a strategy."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    layer = tf.keras.layers.LSTM(4, stateful=True, batch_input_shape=(8, 5, 3))
    model = tf.keras.Sequential([layer, tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensor_slices((tf.ones((32, 5, 3)), tf.ones((32, 1)))).batch(8, drop_remainder=True)
model.fit(data, epochs=2, verbose=0)
