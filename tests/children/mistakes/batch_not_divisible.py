"""Its global batch can't be divided by its replicas."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id


def batches(context):
    size = context.get_per_replica_batch_size(7)
    return tf.data.Dataset.range(64).batch(size)


data = strategy.distribute_datasets_from_function(batches)
