"""Gives MirroredStrategy the devices of all workers."""

import tensorflow as tf

print(tf.distribute.MirroredStrategy([f"/job:worker/task:{index}/device:CPU:0" for index in range(2)]))
