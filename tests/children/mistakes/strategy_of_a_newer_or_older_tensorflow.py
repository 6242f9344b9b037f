"""Names a strategy as TensorFlow 2.3 did."""

import tensorflow as tf

strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy(
    communication=tf.distribute.experimental.CollectiveCommunication.RING
)
