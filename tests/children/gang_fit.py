"""`fit` on workers in step: one is killed in epoch 2, one told to end in epoch 3; then a fit that nobody disturbs."""

import json
import os
import signal
import time
from pathlib import Path

import leaves_last  # noqa: F401
import numpy as np
import tensorflow as tf

from clusterkit import training

strategy = training.strategy()
images = np.random.default_rng(0).normal(size=(80, 4)).astype("float32")
data = training.sharded(tf.data.Dataset.from_tensor_slices((images, images.sum(axis=1, keepdims=True))).batch(8))


class Interrupt(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if training.task() == "worker:1":
            ends = {(1, 17): signal.SIGKILL, (2, 22): signal.SIGTERM}
            if number := ends.get((training.attempt(), int(self.model.optimizer.iterations.numpy()))):
                while number == signal.SIGKILL and not Path(training.checkpoint_dir(), "ckpt-16").exists():
                    time.sleep(0.01)  # the chief writes it in the background, and dies with this worker
                os.kill(os.getpid(), number)


def fit(*callbacks):
    tf.keras.utils.set_random_seed(2017)
    with strategy.scope():
        layers = [tf.keras.layers.Dense(8, "relu"), tf.keras.layers.BatchNormalization(), tf.keras.layers.Dense(1)]
        model = tf.keras.Sequential([tf.keras.Input((4,)), *layers])
        model.compile(tf.keras.optimizers.Adam(training.learning_rate(0.01, warmup_steps=5)), "mse", metrics=["mae"])
    model.fit(data, epochs=4, verbose=0, callbacks=callbacks, validation_data=data)
    return int(model.optimizer.iterations.numpy()), model.get_weights()


step, weights = fit(Interrupt(), training.Backup(4, preemption=True))
_, undisturbed = fit()
same = all((mine == theirs).all() for mine, theirs in zip(weights, undisturbed, strict=True))
print(json.dumps({"step": step, "same": bool(same)}))
