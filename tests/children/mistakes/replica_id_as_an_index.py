"""Takes the id of a replica, which counts the replicas of all workers, as an index into a worker's own list."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    sums = [tf.Variable(0.0)]


def step():
    replica = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
    return sums[replica].read_value()


strategy.run(step)
