"""Worker 1 ends before it makes its strategy."""

import json
import os
import sys

if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
    sys.exit()
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
