"""Stands for TensorFlow where it only matters that it is imported, and by which process."""

import os

BORN_IN = os.getpid()
