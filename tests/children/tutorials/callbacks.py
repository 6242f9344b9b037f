"""`fit` on workers with the usual callbacks, all with the same paths: `callbacks.py DIRECTORY`.

Where there is no backup yet, it waits at step 37: whoever is killed after step 35 dies in that epoch.
"""

import os
import sys
import time

import tensorflow as tf

place = sys.argv[1]
first = not os.path.exists(os.path.join(place, "backup"))
strategy = tf.distribute.MultiWorkerMirroredStrategy()
x = tf.random.stateless_normal([320, 10], [1, 2])
y = tf.cast(tf.reduce_mean(x, axis=1) > 0, tf.int64)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32).repeat()

with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((10,)), tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(2)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])

callbacks = [
    tf.keras.callbacks.BackupAndRestore(os.path.join(place, "backup")),
    tf.keras.callbacks.ModelCheckpoint(os.path.join(place, "epoch-{epoch}", "model.keras")),
    tf.keras.callbacks.ModelCheckpoint(os.path.join(place, "newest.weights.h5"), save_weights_only=True),
    tf.keras.callbacks.CSVLogger(os.path.join(place, "log.csv"), append=True),
    tf.keras.callbacks.TensorBoard(os.path.join(place, "board")),
    tf.keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: wait()),
]


def wait() -> None:
    if first and model.optimizer.iterations.numpy() == 37:
        time.sleep(600)


history = model.fit(dataset, epochs=6, steps_per_epoch=10, callbacks=callbacks, verbose=2)
print("epochs", history.epoch, "step", int(model.optimizer.iterations.numpy()))
