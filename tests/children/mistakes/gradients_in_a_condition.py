"""Gradients are applied in a condition of a step (gradient accumulation)."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.SGD()
    optimizer.build(model.trainable_variables)
    count = tf.Variable(0, trainable=False)
data = tf.data.Dataset.from_tensor_slices((tf.ones((16, 3)), tf.ones((16, 1)))).batch(8)


@tf.function
def step(batch):
    def descend(rows, wanted):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(rows) - wanted)
        gradients = tape.gradient(loss, model.trainable_variables)
        if tf.reduce_sum(rows) > 4.0:
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    strategy.run(descend, args=batch)


for batch in strategy.experimental_distribute_dataset(data):
    step(batch)
