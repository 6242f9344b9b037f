"""Was written for Slurm."""

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.SlurmClusterResolver()
strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
