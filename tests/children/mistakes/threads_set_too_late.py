"""Sets its threads after its strategy has initialized TensorFlow."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
tf.config.threading.set_inter_op_parallelism_threads(4)
