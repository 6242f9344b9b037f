"""An all-reduce of one's own inside of a condition in a step."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()


@tf.function
def step():
    def reduce():
        @tf.function
        def total():
            return tf.distribute.get_replica_context().merge_call(lambda strategy, value: value, args=(1.0,))

        return total()

    return strategy.run(reduce)


step()
