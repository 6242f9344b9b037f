"""The workers create their variables in another order."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = strategy.cluster_resolver.task_id
shapes = [(2, 3), (5,)]
with strategy.scope():
    variables = [tf.Variable(tf.ones(shape)) for shape in (shapes if index else shapes[::-1])]
print(len(variables))
