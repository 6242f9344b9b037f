""""""

import tensorflow as tf

tf.ones(())
tf.config.threading.set_inter_op_parallelism_threads(2)
