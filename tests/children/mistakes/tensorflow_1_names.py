"""Names of TensorFlow 1."""

import tensorflow as tf

cluster = tf.train.ClusterSpec({"worker": ["localhost:2222"]})
server = tf.train.Server(cluster, "worker", 0)
with tf.Session(server.target) as session:
    session.run(tf.global_variables_initializer())
