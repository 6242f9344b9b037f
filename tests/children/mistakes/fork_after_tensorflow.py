"""A process is forked after TensorFlow has been initialized."""

import multiprocessing

import tensorflow as tf

tf.ones(())


def total(number):
    return float(tf.reduce_sum(tf.data.Dataset.range(number).batch(number).get_single_element()))


with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(total, [10, 20]))
