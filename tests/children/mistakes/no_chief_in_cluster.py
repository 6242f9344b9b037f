"""Makes a cluster of ps and workers without a chief."""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
del config["cluster"]["chief"]
os.environ["TF_CONFIG"] = json.dumps(config)
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type == "chief":
    strategy = tf.distribute.ParameterServerStrategy(resolver)
tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id).join()
