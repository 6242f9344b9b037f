"""Asks for FILE sharding of data without files."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
data = tf.data.Dataset.range(64).batch(8).with_options(options)
for batch in strategy.experimental_distribute_dataset(data):
    pass
