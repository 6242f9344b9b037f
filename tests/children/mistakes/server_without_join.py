"""Workers and parameter servers start their server and end."""

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id)
else:
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        weight = tf.Variable(0.0)
    print(weight.assign_add(1.0))
