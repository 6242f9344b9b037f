"""A parameter-server job with TensorFlow's own fault tests in mind: once, its steps last until the test says go.

At the step that is given, in its first attempt alone, the chief says `between` where no step is under way, or `during`
where one is in every worker, and waits until a file `go` is in the run's directory.
"""

import argparse
import os
import time
from pathlib import Path

import tensorflow as tf

from clusterkit import training

PER_ROUND = 4
PAUSE = 20_000  # microseconds that a batch takes

parser = argparse.ArgumentParser()
parser.add_argument("when", choices=["between", "during"])
parser.add_argument("--at", type=int, default=20)
parser.add_argument("--steps", type=int, default=200)
args = parser.parse_args()

training.serve()
strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    done = tf.Variable(0)
    begun = tf.Variable(0)
    endless = tf.Variable(False)
checkpointer = training.Checkpointer(done=done)


@tf.function(autograph=False)
def per_worker():
    def batches(_):
        mine = tf.distribute.coordinator.experimental_get_current_worker_index()
        plain = tf.data.Dataset.from_tensors(tf.cast(mine, tf.int64)).repeat()
        asleep = tf.raw_ops.SleepDataset(
            input_dataset=tf.data.experimental.to_variant(plain),
            sleep_microseconds=tf.constant(PAUSE, tf.int64),
            output_types=[tf.int64],
            output_shapes=[()],
        )
        return tf.data.experimental.from_variant(asleep, plain.element_spec)

    return strategy.distribute_datasets_from_function(batches)


@tf.function
def train(iterator):
    begun.assign_add(1)
    worker = next(iterator)
    while endless:
        worker = next(iterator)
    done.assign_add(1)
    return worker


def wait_for_go(word):
    print(word, flush=True)
    while not Path(os.environ["CLUSTERKIT_RUN_DIR"], "go").exists():
        time.sleep(0.01)


def run_round(batches, held, last):
    if held and args.when == "between":
        wait_for_go("between")
    during = held and args.when == "during"
    endless.assign(during or last)
    begun.assign(0)
    pending = [coordinator.schedule(train, (batches,)) for _ in range(PER_ROUND)]
    if during or last:  # until a step is under way in every worker
        while int(begun) < training.num_workers():
            time.sleep(0.01)
        if during:
            wait_for_go("during")
        endless.assign(False)
    coordinator.join()
    return sorted({int(worker.fetch()) for worker in pending})


batches = iter(coordinator.create_per_worker_dataset(per_worker))
step = checkpointer.restore()
while step < args.steps:
    held = step == args.at and training.attempt() == 1
    workers = run_round(batches, held, last=step + PER_ROUND >= args.steps)
    step += PER_ROUND
    training.report(step)
    if step % 20 == 0:
        checkpointer.save(step)
print(f"{step} steps, the last ones by workers {workers}")
