"""Stands for TensorFlow where it only matters that it is imported, and by which process."""

import os

import keras  # noqa: F401 - as TensorFlow does

BORN_IN = os.getpid()
