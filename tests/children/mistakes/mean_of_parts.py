"""The losses are divided by the global batch size, and then averaged over the replicas."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
GLOBAL_BATCH_SIZE = 8


def step(x):
    return tf.nn.compute_average_loss(tf.reduce_sum(x, axis=1), global_batch_size=GLOBAL_BATCH_SIZE)


@tf.function
def train(x):
    return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(step, args=(x,)), axis=None)


dataset = tf.data.Dataset.from_tensor_slices(tf.ones((64, 4))).batch(GLOBAL_BATCH_SIZE)
for x in strategy.experimental_distribute_dataset(dataset):
    print(float(train(x)))
