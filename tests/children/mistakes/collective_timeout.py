"""Worker 1 needs longer for a batch than the timeout that its collectives have."""

import time

import tensorflow as tf

options = tf.distribute.experimental.CommunicationOptions(timeout_seconds=2)
strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
for number in range(4):
    time.sleep(8 * strategy.cluster_resolver.task_id)
    strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([4]), options))
