"""An argument that MultiWorkerMirroredStrategy had in TensorFlow 2.3."""

import tensorflow as tf

ring = tf.distribute.experimental.CommunicationImplementation.RING
strategy = tf.distribute.MultiWorkerMirroredStrategy(communication=ring)
