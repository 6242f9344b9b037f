"""The coordinator waits for each step, so that the workers train one after the other."""

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weight = tf.Variable(1.0)


@tf.function
def step():
    return strategy.run(lambda: weight.assign_sub(0.1))


for number in range(20):
    coordinator.schedule(step)
    coordinator.join()
    if number % 5 == 0:
        print("step", number, float(weight))
