"""Adds the losses of regularizers to a loss for each row."""

import tensorflow as tf


class Model(tf.keras.Model):
    """Averages its loss in train_step."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compiled_loss(y, self(x, training=True), regularization_losses=self.losses)
            loss = tf.nn.compute_average_loss(loss, global_batch_size=8)
        self.optimizer.minimize(loss, self.trainable_variables, tape=tape)
        return {"loss": loss}


strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    x = tf.keras.Input((4,))
    model = Model(x, tf.keras.layers.Dense(1, kernel_regularizer="l2")(x))
    model.compile("sgd", tf.keras.losses.MeanSquaredError(reduction=tf.keras.losses.Reduction.NONE))
model.fit(tf.data.Dataset.from_tensor_slices((tf.ones((32, 4)), tf.ones((32, 1)))).batch(8))
