"""The optimizer is made in the strategy's scope, the model outside of it."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
with strategy.scope():
    optimizer = tf.keras.optimizers.legacy.Adam()


def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(tf.ones((8, 4))))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


@tf.function
def train():
    strategy.run(step)


with strategy.scope():
    train()
