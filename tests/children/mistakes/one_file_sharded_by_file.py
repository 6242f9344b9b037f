"""Shards one file by file."""

import tempfile

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id

with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    file.write("1\n" * 64)
    file.flush()
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
    data = tf.data.TextLineDataset([file.name]).batch(8).with_options(options)
    for batch in strategy.experimental_distribute_dataset(data):
        pass
