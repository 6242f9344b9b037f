"""Starts the training in a process with an environment of its own, which lacks what clusterkit has set."""

import os
import subprocess
import sys

TRAIN = "import tensorflow as tf; tf.distribute.MultiWorkerMirroredStrategy()"
environment = {name: os.environ[name] for name in ("PATH", "TF_CONFIG")}
subprocess.run([sys.executable, "-c", TRAIN], env=environment, check=True)
