"""Calls merge_call inside a tf.function that is called in a replica."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id


@tf.function
def inner():
    return tf.distribute.get_replica_context().merge_call(lambda strategy: tf.ones([4]))


strategy.run(inner)
