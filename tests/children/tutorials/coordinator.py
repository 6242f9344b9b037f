"""The form of the parameter-server tutorial: `experimental` names, a custom loop, all roles in one file."""

import json
import os

import tensorflow as tf

cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if cluster_resolver.task_type in ("worker", "ps"):
    os.environ["GRPC_FAIL_FAST"] = "use_caller"
    server = tf.distribute.Server(
        cluster_resolver.cluster_spec(),
        job_name=cluster_resolver.task_type,
        task_index=cluster_resolver.task_id,
        protocol=cluster_resolver.rpc_layer or "grpc",
        start=True,
    )
    server.join()

num_ps = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["ps"])
partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(min_shard_bytes=256 << 10, max_shards=num_ps)
strategy = tf.distribute.experimental.ParameterServerStrategy(cluster_resolver, variable_partitioner=partitioner)
coordinator = tf.distribute.experimental.coordinator.ClusterCoordinator(strategy)

with strategy.scope():
    weights = tf.Variable(tf.zeros([4, 1]))


def dataset_fn():
    def inputs(context):
        x = tf.random.stateless_normal([256, 4], [1, 2])
        y = tf.matmul(x, tf.constant([[1.0], [2.0], [3.0], [4.0]]))
        return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(256).repeat().batch(32)

    return strategy.distribute_datasets_from_function(inputs)


@tf.function
def step_fn(iterator):
    def replica_fn(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.matmul(x, weights) - y) ** 2)
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        return loss

    losses = strategy.run(replica_fn, args=next(iterator))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


per_worker_dataset = coordinator.create_per_worker_dataset(dataset_fn)
per_worker_iterator = iter(per_worker_dataset)
for epoch in range(4):
    for _ in range(25):
        coordinator.schedule(step_fn, args=(per_worker_iterator,))
    coordinator.join()
    print(f"epoch {epoch} is over")
result = coordinator.schedule(step_fn, args=(per_worker_iterator,))
coordinator.join()
print("loss is small", float(result.fetch()) < 0.01)
