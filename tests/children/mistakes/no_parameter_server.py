"""ParameterServerStrategy in a cluster without parameter servers."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
print(strategy)
