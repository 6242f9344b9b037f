"""A function that XLA can not compile."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()


@tf.function(jit_compile=True)
def step(rows):
    return tf.strings.length(tf.strings.as_string(rows))


print(strategy.run(step, args=(tf.ones((4,)),)))
