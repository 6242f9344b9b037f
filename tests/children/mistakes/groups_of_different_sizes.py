"""The workers form a group of a collective operation, each of another size."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
size = 2 + strategy.cluster_resolver.task_id


@tf.function
def total():
    rest = {"instance_key": 5, "ordering_token": [], "merge_op": "Add", "final_op": "Id"}
    return tf.raw_ops.CollectiveReduceV2(input=tf.ones(4), group_size=size, group_key=77, **rest)


print(total())
