"""Worker 1 ends its loop because its own loss is not a number."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id


@tf.function
def step(loss):
    def replica(loss):
        return loss, tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([64]))

    return strategy.run(replica, args=(loss,))


for number in range(50):
    loss, _ = step(tf.constant(float("nan") if index == 1 and number == 5 else 1.0))
    if tf.math.is_nan(loss):
        break
