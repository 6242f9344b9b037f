"""Passes an argument that only other strategies have."""

import tensorflow as tf

tf.distribute.MultiWorkerMirroredStrategy(num_gpus_per_worker=1)
