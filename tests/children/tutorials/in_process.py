"""The form of the parameter-server notebook: workers and parameter servers are threads of this one process."""

import multiprocessing
import socket

import portpicker
import tensorflow as tf

held = []


def pick_port():
    """A free port, which nobody else gets before its server has it: gRPC shares it with who holds it like this."""
    port = portpicker.pick_unused_port()
    held.append(socket.socket())
    held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held[-1].bind(("localhost", port))
    return port


def create_in_process_cluster(num_workers, num_ps):
    """Servers at free ports, and what finds them."""
    ports = {"worker": num_workers, "ps": num_ps}
    cluster = {name: [f"localhost:{pick_port()}" for _ in range(n)] for name, n in ports.items()}
    spec = tf.train.ClusterSpec(cluster)
    config = tf.compat.v1.ConfigProto()
    if multiprocessing.cpu_count() < num_workers + 1:
        config.inter_op_parallelism_threads = num_workers + 1
    for name, count in ports.items():
        for index in range(count):
            tf.distribute.Server(spec, job_name=name, task_index=index, config=config, protocol="grpc")
    return tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")


strategy = tf.distribute.ParameterServerStrategy(create_in_process_cluster(2, 1))
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1, use_bias=False)])
    optimizer = tf.keras.optimizers.SGD(0.1)


def dataset_fn(context):
    x = tf.random.stateless_normal([256, 4], [1, 2])
    y = tf.matmul(x, tf.constant([[1.0], [2.0], [3.0], [4.0]]))
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(256).repeat().batch(32)


@tf.function
def step_fn(iterator):
    def replica_fn(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_fn, args=next(iterator)), axis=None)


coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
per_worker = coordinator.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(dataset_fn))
iterator = iter(per_worker)
for _ in range(80):
    result = coordinator.schedule(step_fn, args=(iterator,))
coordinator.join()
print("loss is small", float(result.fetch()) < 0.05)
