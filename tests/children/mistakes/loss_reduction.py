"""A loss in a loop of one's own that does not say how it is reduced, in Keras 2."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.SGD()
    squared = tf.keras.losses.MeanSquaredError()
data = tf.data.Dataset.from_tensor_slices((tf.ones((16, 3)), tf.ones((16, 1)))).batch(8)


@tf.function
def step(batch):
    def descend(rows, wanted):
        with tf.GradientTape() as tape:
            loss = squared(wanted, model(rows))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

    strategy.run(descend, args=batch)


for batch in strategy.experimental_distribute_dataset(data):
    step(batch)
