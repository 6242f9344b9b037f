"""Writes a summary in a step that strategy.run runs, without saying of which step it is."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
writer = tf.summary.create_file_writer("summaries")


def step(value):
    """Return the square of the value."""
    tf.summary.scalar("square", value**2)
    return value**2


@tf.function
def distributed_step(value):
    """Add up the squares of all workers."""
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step, args=(value,)), axis=None)


with writer.as_default():
    print(distributed_step(tf.constant(2.0)))
