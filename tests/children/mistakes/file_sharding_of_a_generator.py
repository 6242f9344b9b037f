"""Data from a generator, sharded by file."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
rows = tf.data.Dataset.from_generator(lambda: iter(range(16)), output_signature=tf.TensorSpec((), tf.int32))
for batch in strategy.experimental_distribute_dataset(rows.batch(8).with_options(options)):
    print(batch)
