"""Imports from the inside of another TensorFlow."""

from tensorflow.python.estimator.canned import dnn

print(dnn)
