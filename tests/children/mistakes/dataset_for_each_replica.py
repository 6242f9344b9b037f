"""Asks for a dataset for each replica, with a strategy that has one for each worker."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
options = tf.distribute.InputOptions(experimental_replication_mode=tf.distribute.InputReplicationMode.PER_REPLICA)
for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.range(8).batch(4), options):
    print(batch)
