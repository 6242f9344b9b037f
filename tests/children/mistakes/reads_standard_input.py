"""The program asks a question on standard input."""

import tensorflow as tf

epochs = int(input("How many epochs? "))
print(tf.ones((epochs,)))
