"""Forks a process after TensorFlow has started its threads; the process waits for them."""

import multiprocessing

import tensorflow as tf

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])


def predict(rows):
    print(model.predict(tf.ones((rows, 4)), verbose=0).sum())


predict(8)
process = multiprocessing.Process(target=predict, args=(8,))
process.start()
process.join()
