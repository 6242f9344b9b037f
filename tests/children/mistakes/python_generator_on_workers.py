"""Workers read a Python generator that lives in the coordinator."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


def rows():
    while True:
        yield 1.0


def dataset():
    return tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec((), tf.float32)).batch(8)


@tf.function
def step(batches):
    return next(batches)


batches = iter(coordinator.create_per_worker_dataset(dataset))
coordinator.schedule(step, args=(batches,))
coordinator.join()
