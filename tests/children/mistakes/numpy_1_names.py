"""Uses a name of NumPy 1."""

import numpy as np
import tensorflow as tf

print(tf.constant(np.ones(3, dtype=np.float)))  # type: ignore[attr-defined]
