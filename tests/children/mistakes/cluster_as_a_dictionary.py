"""Makes a resolver of a dictionary."""

import json
import os

import tensorflow as tf

cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, task_type="worker", task_id=0)
tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
