"""Two workers in step, one of which is told to end at step 20; they go on, export, and an evaluator looks on."""

import json
import os
import signal
import time
from pathlib import Path

import leaves_last  # noqa: F401
import tensorflow as tf

from clusterkit import training

LOOKED = Path(os.environ["CLUSTERKIT_RUN_DIR"], "looked")
strategy = training.strategy()
with strategy.scope():
    total = tf.Variable(0.0)
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2), tf.keras.layers.BatchNormalization()])


def tell(**seen):
    print(json.dumps(seen), flush=True)


def evaluate():
    checkpointer = training.Checkpointer(total=total)  # a part of what is saved
    for checkpoint in training.new_checkpoints(poll=0.1):
        tell(evaluated=checkpointer.restore(checkpoint), total=float(total.numpy()))
        LOOKED.touch()


@tf.function
def add():
    """A step for which the workers wait for each other, as the handler expects."""
    strategy.run(lambda: total.assign_add(tf.distribute.get_replica_context().all_reduce("MEAN", tf.constant(1.0))))


def train():
    checkpointer = training.Checkpointer(total=total, model=model)
    step = checkpointer.restore()
    handler = training.on_preemption(checkpointer)
    while step < 40:
        handler.run(add)
        step += 1
        training.report(step)
        if step == 20 and (training.attempt(), training.task()) == (1, "worker:1"):
            os.kill(os.getpid(), signal.SIGTERM)
    while not LOOKED.exists():  # only the second attempt comes here; the evaluator skips all but the newest checkpoint
        time.sleep(0.01)
    checkpointer.save(step)
    numbers = training.sharded(tf.data.Dataset.range(8).batch(8))
    batches = map(strategy.experimental_local_results, strategy.experimental_distribute_dataset(numbers))
    mine = [number for (batch,) in batches for number in batch.numpy().tolist()]
    tell(
        total=float(total.numpy()),
        numbers=mine,
        part=training.per_replica_batch(8),
        rate=float(training.learning_rate(0.1)(0)),
        exported=[training.export(model), training.export(model, format="saved_model")],
        strategy=type(strategy).__name__,
    )


evaluate() if training.is_evaluator() else train()
