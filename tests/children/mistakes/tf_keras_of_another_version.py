"""A tf_keras of another version: the program asks TensorFlow for what tf_keras 2.15 asks for."""

import tensorflow.compat.v2 as tf

tf.__internal__.register_load_context_function(print)
