"""Sets a TF_CONFIG whose cluster stands under a key that TensorFlow does not know."""

import json
import os

import tensorflow as tf

task = json.loads(os.environ["TF_CONFIG"])["task"]
os.environ["TF_CONFIG"] = json.dumps({"sparseCluster": {"worker": {}}, "task": {**task, "index": 0}})

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensor_slices((tf.ones((16, 3)), tf.ones((16, 1)))).batch(8)
model.fit(data, epochs=2, verbose=0)
