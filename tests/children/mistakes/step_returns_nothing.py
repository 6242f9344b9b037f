"""Reduces what a step without a return statement returns."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()


def step():
    tf.constant(1.0)


@tf.function
def train():
    return strategy.reduce("SUM", strategy.run(step), axis=None)


train()
