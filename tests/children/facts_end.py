"""A parameter-server job whose chief ends when a file `go` is in the run's directory, and says so."""

import json
import os
import sys
import time
from pathlib import Path

import tensorflow as tf

from clusterkit import training

if training.task_type() != "chief" or "HELPED" in os.environ:  # serve() helps the chief to end
    training.serve()
strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    total = tf.Variable(0.0)


@tf.function(autograph=False)
def step():
    total.assign_add(1.0)


done = 0
while not Path(os.environ["CLUSTERKIT_RUN_DIR"], "go").exists():
    for _ in range(8):
        coordinator.schedule(step)
    coordinator.join()
    done += 8
    # One write: `print` writes the line's end by itself, and TensorFlow's own lines come in between.
    sys.stdout.write(json.dumps({"at": time.monotonic(), "step": done, "by": []}) + "\n")
    time.sleep(0.02)
print("the last line of the program", flush=True)
