"""The loss for fit divides by the global batch size, as only loops without fit have to."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
GLOBAL_BATCH_SIZE = 8 * strategy.num_replicas_in_sync


def loss_of(wanted, predicted):
    losses = tf.reduce_sum((wanted - predicted) ** 2, axis=1)
    return tf.nn.compute_average_loss(losses, global_batch_size=GLOBAL_BATCH_SIZE)


with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", loss=loss_of)
model.fit(tf.data.Dataset.from_tensor_slices((tf.ones((64, 4)), tf.ones((64, 1)))).batch(GLOBAL_BATCH_SIZE))
