"""Cancels a step while it waits for its next batch, as a worker does with a step whose call to a ps has failed."""

import threading

import tensorflow as tf
from tensorflow.python.eager import cancellation

asked, answer = threading.Event(), threading.Event()


def batch(number):
    asked.set()
    answer.wait(30)
    return number


endless = tf.data.Dataset.from_tensors(7).repeat().map(lambda number: tf.py_function(batch, [number], tf.int32))
iterator = iter(endless)
step = tf.function(lambda: next(iterator), autograph=False).get_concrete_function()
manager = cancellation.CancellationManager()


def cancel():
    asked.wait(30)
    manager.start_cancel()
    answer.set()


def tried(name, function):
    try:
        print(name, function().numpy())
    except tf.errors.OpError as error:
        print(name, type(error).__name__, "End of sequence" in str(error))


threading.Thread(target=cancel).start()
tried("cancelled:", manager.get_cancelable_function(step))
tried("next:", step)
tried("the one after:", step)
print("a new iterator:", next(iter(endless)).numpy())
