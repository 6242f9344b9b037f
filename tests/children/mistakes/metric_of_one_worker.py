"""The metric is created before the scope, so that each worker has one of its own."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
seen = tf.keras.metrics.Mean()
dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.range(64, output_type=tf.float32).batch(16))


def step(x):
    seen.update_state(x)


@tf.function
def train(x):
    strategy.run(step, args=(x,))


for x in dataset:
    train(x)
print("mean", float(seen.result()), "and not 31.5")
