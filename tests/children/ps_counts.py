"""A coordinator whose workers count: Keras's optimizer and metrics, and a variable of TensorFlow's beside them.

python ps_counts.py STEPS
"""

import sys

import tensorflow as tf

from clusterkit import training

training.serve()
steps = int(sys.argv[1])
keras = tf.keras
strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(0.001)
    optimizer.build(model.trainable_variables)
    mean, hits, auc = keras.metrics.Mean(), keras.metrics.BinaryAccuracy(), keras.metrics.AUC(num_thresholds=5)
    counter = tf.Variable(0)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


@tf.function
def step():
    def replica():
        x = tf.random.normal((8, 4))
        y = tf.cast(tf.reduce_sum(x, axis=1, keepdims=True) > 0, tf.float32)
        with tf.GradientTape() as tape:
            predicted = model(x)
            loss = tf.reduce_mean(tf.square(y - predicted))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        mean.update_state(loss)
        hits.update_state(y, predicted)
        auc.update_state(y, tf.sigmoid(predicted))
        counter.assign_add(1)

    strategy.run(replica)


for _ in range(steps):
    coordinator.schedule(step)
coordinator.join()
rows = round(sum(float(tf.reduce_sum(variable.value)) for variable in auc.variables) / 5)
counts = [counter, optimizer.iterations, mean.count, hits.count]
print("counted", *(int(count.numpy()) for count in counts), rows, flush=True)
