"""Makes a strategy for parameter servers without a TF_CONFIG."""

import os

import tensorflow as tf

os.environ.pop("TF_CONFIG", None)
tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
