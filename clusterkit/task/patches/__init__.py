"""Patches of TensorFlow and Keras, applied in a task as they are imported. Each file is loaded by path."""
