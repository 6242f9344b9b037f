"""A tf_keras of another version than TensorFlow: the program asks for what tf_keras 2.15 asks for when it is imported."""

import tensorflow.compat.v2 as tf

tf.__internal__.register_load_context_function(print)
