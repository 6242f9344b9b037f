"""A training loop whose gradients are almost right: `slight.py FLAW`, or right without an argument."""

import sys

import numpy as np
import tensorflow as tf

FLAW = sys.argv[1] if len(sys.argv) > 1 else ""
BATCH = 33 if FLAW == "uneven_batch" else 32
strategy = tf.distribute.MultiWorkerMirroredStrategy()
tf.keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(10 * BATCH, 8)).astype("float32")
y = np.tanh(x[:, :1])
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH, drop_remainder=True).repeat(2)
with strategy.scope():
    layers = tf.keras.layers
    hidden = layers.Dense(16, "relu", kernel_regularizer=tf.keras.regularizers.L2(1e-3))
    model = tf.keras.Sequential([tf.keras.Input((8,)), hidden, layers.Dense(1)])
    optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.9)
    optimizer.build(model.trainable_variables)


def replica(rows, wanted):
    with tf.GradientTape() as tape:
        losses = (model(rows, training=True) - wanted) ** 2
        loss = tf.reduce_sum(losses) / BATCH
        if FLAW == "uneven_batch":  # 17 rows of one worker weigh as much as 16 of the other
            loss = tf.reduce_mean(losses) / strategy.num_replicas_in_sync
        whole = tf.add_n(model.losses)
        loss += whole if FLAW == "regularizer_of_each_replica" else whole / strategy.num_replicas_in_sync
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@tf.function
def step(rows):
    return strategy.reduce("SUM", strategy.run(replica, args=rows), axis=None)


for batch in strategy.experimental_distribute_dataset(data):
    step(batch)
