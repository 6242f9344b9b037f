"""Prints the value of a tensor in a step."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id


@tf.function
def step():
    loss = strategy.reduce("SUM", strategy.run(lambda: tf.ones(())), axis=None)
    print("loss", loss.numpy())


step()
