"""The name that strategy.run had in TensorFlow 2.0."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
print(strategy.experimental_run_v2(lambda: tf.ones(())))
