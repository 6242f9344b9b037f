"""Has one optimizer for two models."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    models = [tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)]) for _ in range(2)]
    optimizer = tf.keras.optimizers.SGD()


@tf.function
def step(model: tf.keras.Model) -> None:
    """Make the weights smaller."""
    optimizer.apply_gradients((weight, weight) for weight in model.trainable_variables)


for model in models:
    strategy.run(step, args=(model,))
