"""A model whose train_step calls its parts, and which has no call of its own."""

import tensorflow as tf


class Critic(tf.keras.Model):
    """Trains a part with an optimizer of its own."""

    def __init__(self):
        super().__init__()
        self.part = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])

    def train_step(self, rows):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.part(rows))
        gradients = tape.gradient(loss, self.part.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.part.trainable_variables))
        return {"loss": loss}


strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = Critic()
    model.compile("adam")
model.fit(tf.data.Dataset.from_tensor_slices(tf.ones((32, 4))).batch(8))
