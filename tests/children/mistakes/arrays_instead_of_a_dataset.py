"""Arrays are distributed as if they were a dataset."""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
strategy.experimental_distribute_dataset(np.ones((16, 3)))
