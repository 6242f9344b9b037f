"""The loop gives the step a number of Python, so that TensorFlow traces the step for each number."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy(["CPU:0"])


@tf.function
def train_step(x, number):
    return strategy.run(lambda rows: tf.reduce_sum(rows) * number, args=(x,))


dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(tf.ones((96, 4))).batch(8))
for number, x in enumerate(dataset):
    train_step(x, number)
