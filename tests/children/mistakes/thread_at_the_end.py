"""Leaves threads that compute behind, which Python ends in the middle of TensorFlow's code."""

import threading
import time

import tensorflow as tf

square = tf.Variable(tf.zeros((100, 100)))


def compute():
    """Compute for ever."""
    while True:
        tf.matmul(square, square).numpy()


class SlowEnd:
    """Gives the threads the time to end, as a large program does."""

    def __del__(self, sleep=time.sleep):
        sleep(1)


for _ in range(32):
    threading.Thread(target=compute, daemon=True).start()
end = SlowEnd()
time.sleep(1)
print("done", flush=True)
