"""Passes its strategy to another process."""

import multiprocessing

import tensorflow as tf


def evaluate(strategy):
    print(strategy.num_replicas_in_sync)


if __name__ == "__main__":
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    multiprocessing.get_context("spawn").Process(target=evaluate, args=(strategy,)).start()
