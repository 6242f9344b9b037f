"""A multi-worker job that says of each step, which is one all-reduce of so many numbers, when it was done."""

import json
import sys
import time

import tensorflow as tf

size = int(sys.argv[1])
strategy = tf.distribute.MultiWorkerMirroredStrategy()


@tf.function(autograph=False)
def step():
    return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.ones(size)))


done = 0
while True:
    step()
    done += 1
    sys.stdout.write(json.dumps({"at": time.monotonic(), "step": done, "by": []}) + "\n")  # see facts_end.py
    time.sleep(0.02)
