"""ParameterServerStrategy without its resolver."""

import tensorflow as tf

tf.distribute.ParameterServerStrategy()
