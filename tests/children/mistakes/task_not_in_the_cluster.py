"""Places a variable on a parameter server that the cluster does not have."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
with tf.device("/job:ps/task:1"):
    weight = tf.Variable(1.0)
print(weight)
