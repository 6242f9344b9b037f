"""Calls the strategy's reduce inside the function of a replica."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id


@tf.function
def step():
    return strategy.run(lambda: strategy.reduce("SUM", tf.ones([4]), axis=None))


step()
