"""A coordinator that saves in the background, and compares with what TensorFlow writes; then as if it were too much."""

import json

import tensorflow as tf

from clusterkit import training
from clusterkit.training import snapshot

training.serve()
cut = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver(), cut)
with strategy.scope():
    sharded, plain = tf.Variable(tf.ones((6, 4))), tf.Variable(1.0)
checkpointer = training.Checkpointer(sharded=sharded, plain=plain)


def tensors(prefix):
    reader = tf.train.load_checkpoint(prefix)
    return {key: reader.get_tensor(key).tolist() for key in reader.get_variable_to_shape_map() if key[0] != "_"}


def assign(value):
    for shard in sharded.variables:
        shard.assign(tf.fill(shard.shape, value))
    plain.assign(value)


def restored():
    assign(9.0)
    step = checkpointer.restore()
    values = {float(number) for shard in sharded.variables for number in shard.numpy().ravel()} | {float(plain.numpy())}
    assert len(values) == 1, values
    return [step, *values]


training.report(1)
expected = tf.train.Checkpoint(sharded=sharded, plain=plain).write(training.checkpoint_dir() + "/plain/state")
path = checkpointer.save(10)
assign(5.0)
checkpointer.wait()
same = tensors(path + "/state") == tensors(expected)
seen = {"same": same, "restored": restored()}
snapshot.MOST_FETCHED = 0
assign(2.0)
other = training.Checkpointer(sharded=sharded, plain=plain)
other.save(20)
assign(5.0)
other.wait()
print(json.dumps({**seen, "direct": restored()}), flush=True)
