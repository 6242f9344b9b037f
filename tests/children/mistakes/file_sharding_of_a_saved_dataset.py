"""A dataset that was saved and loaded, sharded by file."""

import tempfile

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
path = tempfile.mkdtemp()
tf.data.Dataset.range(16).batch(8).save(path)
for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.load(path).with_options(options)):
    print(batch)
