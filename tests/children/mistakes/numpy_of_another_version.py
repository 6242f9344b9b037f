"""A module that was built for NumPy 1, under NumPy 2: it asks for what such a module asks for."""

import numpy.core._multiarray_umath as umath
import tensorflow as tf

print(umath._ARRAY_API, tf.__version__)
