"""On parameter servers, each worker is the only input pipeline: its shard is all of the data."""

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


def rows(context):
    dataset = tf.data.Dataset.range(64)
    return dataset.shard(context.num_input_pipelines, context.input_pipeline_id).repeat().batch(8)


def worker_dataset():
    return strategy.distribute_datasets_from_function(rows)


@tf.function
def step(batches):
    return tf.reduce_sum(next(batches))


batches = iter(coordinator.create_per_worker_dataset(worker_dataset))
print(int(coordinator.schedule(step, args=(batches,)).fetch()))
coordinator.join()
