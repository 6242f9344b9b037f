"""Uses MultiWorkerMirroredStrategy in a job with parameter servers."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
