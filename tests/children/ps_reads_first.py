"""A coordinator whose worker reads a variable of Keras, writes it, and assigns what it read, less one."""

import tensorflow as tf

from clusterkit import training

training.serve()
strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
with strategy.scope():
    variable = tf.keras.Variable(10.0)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


@tf.function
def step():
    def replica():
        old = tf.identity(variable.value)
        variable.assign(0.5 * old)
        variable.assign(old - 1.0)

    strategy.run(replica)


for _ in range(5):
    coordinator.schedule(step)
    coordinator.join()
print("it is", float(variable.numpy()), "now", flush=True)
