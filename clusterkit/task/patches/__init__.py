"""Patches for modules that a task's program imports, mostly TensorFlow and Keras. The files are loaded by path."""
