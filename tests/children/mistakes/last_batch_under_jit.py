"""The last batch is smaller, and the step is compiled by XLA."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = tf.data.Dataset.range(20).batch(8)


@tf.function(jit_compile=True)
def step(batch):
    return strategy.run(lambda rows: tf.boolean_mask(rows, rows > 3), args=(batch,))


for batch in strategy.experimental_distribute_dataset(data):
    step(batch)
