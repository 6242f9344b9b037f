"""Sets a strategy inside of the scope of a strategy."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    tf.distribute.experimental_set_strategy(strategy)
