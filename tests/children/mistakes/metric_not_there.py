"""The checkpoint waits for the val_loss, and fit gets no validation data."""

import tensorflow as tf

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
best = tf.keras.callbacks.ModelCheckpoint("best.keras", monitor="val_loss", save_best_only=True)
model.fit(tf.ones((64, 4)), tf.ones((64, 1)), epochs=2, verbose=2, callbacks=[best])
