"""Each worker compiles its own function: one with another order of collectives."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id


@tf.function
def step():
    context = tf.distribute.get_replica_context()
    if index == 0:
        return context.all_reduce("SUM", tf.ones([4])), context.all_reduce("SUM", tf.constant([1, 2]))
    return context.all_reduce("SUM", tf.constant([1, 2])), context.all_reduce("SUM", tf.ones([4]))


strategy.run(step)
