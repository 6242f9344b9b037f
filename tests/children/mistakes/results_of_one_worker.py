"""Each worker collects the predictions of its own replica."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.range(64).batch(16))


@tf.function
def predict(x):
    return strategy.run(lambda rows: rows * 2, args=(x,))


predictions = []
for x in dataset:
    predictions.extend(tf.concat(strategy.experimental_local_results(predict(x)), axis=0).numpy())
print(len(predictions), "predictions for 64 rows")
