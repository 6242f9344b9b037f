"""Makes each strategy of one process, takes a step with it, and says what it saw as one line of JSON."""

import contextlib
import io
import json
import sys

import tensorflow as tf

from clusterkit import training


def total(strategy):
    """What a step adds up over the replicas: 1 + 2 + ... in a variable of the strategy."""
    with strategy.scope():
        weight = tf.Variable(1.0)

    def step():
        mine = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
        return weight * (mine + 1)

    return float(strategy.reduce("SUM", tf.function(lambda: strategy.run(step))(), axis=None))


def said(**arguments):
    """The sentence with which a strategy is refused."""
    try:
        training.strategy(**arguments)
    except training.StrategyUnavailable as error:
        return [type(error).__name__, str(error)]


asked = [("mirrored", 4), ("central-storage", 2), ("mirrored", None), ("one-device", None), ("default", None)]
seen = {}
for name, devices in asked:
    strategy = training.strategy(name, devices=devices)
    seen[f"{name} {devices}"] = [type(strategy).__name__, strategy.num_replicas_in_sync, total(strategy)]
    with strategy.scope():
        seen[f"{name} {devices}"] += [training.per_replica_batch(8), training.scaled(0.1, 0, 0)]
seen["too many"] = said(name="mirrored", devices=8)
seen["no tpu"] = said(name="tpu", fallback=False)
seen["no ps"] = said(name="parameter-server", fallback=False)
with contextlib.redirect_stdout(io.StringIO()) as out:
    seen["instead"] = type(training.strategy("tpu")).__name__
seen["printed"] = out.getvalue()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    one = tf.ones((1, 2))
    loaded = tf.keras.models.load_model(training.export(model, sys.argv[1] + "/m.keras"))(one)
    server = tf.saved_model.load(training.export(model, sys.argv[1] + "/m", "saved_model"))
    served = server.serve(one)
    seen["exported"] = [float(output.numpy().item()) for output in (model(one), loaded, served)]
print(json.dumps(seen))
