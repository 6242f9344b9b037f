"""Imports from the inside of another TensorFlow."""

from tensorflow.python.keras.distribute import multi_worker_training_state

print(multi_worker_training_state)
