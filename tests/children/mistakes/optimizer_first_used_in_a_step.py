"""An optimizer is first used in a step of a loop, outside the scope."""

import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam()


@tf.function
def step():
    def descend():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(tf.ones((4, 3))))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

    strategy.run(descend)


coordinator.schedule(step)
coordinator.join()
