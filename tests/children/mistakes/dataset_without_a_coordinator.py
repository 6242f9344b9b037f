"""A coordinator reads its workers' dataset itself."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
tf.distribute.coordinator.ClusterCoordinator(strategy)
data = strategy.distribute_datasets_from_function(lambda context: tf.data.Dataset.range(64).batch(8))
for batch in data:
    print(batch)
