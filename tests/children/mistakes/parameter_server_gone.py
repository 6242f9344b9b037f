"""The coordinator is alive when the parameter server dies."""

import os
import time

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id)
    time.sleep(8 if resolver.task_type == "ps" else 60)
    os._exit(0)
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weight = tf.Variable(0.0)


@tf.function
def step():
    return weight.assign_add(1.0)


while True:
    coordinator.schedule(step)
    coordinator.join()
