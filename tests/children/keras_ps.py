"""Calls `fit` under ParameterServerStrategy as a tutorial does; workers and ps serve, or are told `everyone` not to."""

import sys

import tensorflow as tf
from tensorflow.keras import layers

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps") and "everyone" not in sys.argv:
    tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    ).join()

strategy = tf.distribute.experimental.ParameterServerStrategy(resolver)
with strategy.scope():
    model = tf.keras.Sequential([layers.Dense(1)])
    model.compile("sgd", "mse")


def dataset(context=None):
    data = tf.data.Dataset.from_tensor_slices((tf.ones((64, 3)), tf.ones((64, 1))))
    return data.repeat().batch(8)


print("keras", tf.keras.__name__, type(model).__module__, layers.Dense.__module__, flush=True)
model.fit(dataset(), epochs=2, steps_per_epoch=5, verbose=0)
print("loss has fallen to", model.history.history["loss"][-1] < model.history.history["loss"][0], flush=True)
