"""Imports TensorFlow Addons."""

import tensorflow_addons as tfa

print(tfa.__version__)
