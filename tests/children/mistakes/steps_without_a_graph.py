"""The loop calls strategy.run without a tf.function, operation by operation."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy(["CPU:0"])
with strategy.scope():
    weight = tf.Variable(1.0)


def step(x):
    weight.assign_sub(0.01 * tf.reduce_mean(x))


for x in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(tf.ones((64, 4))).batch(8)):
    strategy.run(step, args=(x,))
print(weight.numpy())
