"""Gives each replica a seed of its own, made of its number, which is a tensor."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()


def step():
    """Return random numbers."""
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    return tf.random.normal((3,), seed=5 + replica)


@tf.function
def distributed_step():
    """Return the random numbers of all replicas."""
    return strategy.run(step)


print(distributed_step())
