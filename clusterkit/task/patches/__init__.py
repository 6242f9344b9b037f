"""Patches for a task's modules, mostly TensorFlow and Keras, applied at import. Each file is loaded by path."""
