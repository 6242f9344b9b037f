"""The optimizer makes its variables in the first step of two replicas."""

import tensorflow as tf

devices = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(devices[0], [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam()


def descend(rows):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(rows))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


@tf.function
def step(rows):
    return strategy.reduce("SUM", strategy.run(descend, args=(rows,)), axis=None)


for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(tf.ones((32, 4))).batch(8)):
    step(batch)
