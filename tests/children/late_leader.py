"""A gang whose leader makes its strategy a second after the others."""

import os
import time

import tensorflow as tf

if os.environ["CLUSTERKIT_TASK"] == "worker:0":
    time.sleep(1.0)
tf.distribute.MultiWorkerMirroredStrategy()
