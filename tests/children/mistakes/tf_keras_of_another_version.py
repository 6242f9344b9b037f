"""tf_keras under a TensorFlow that is older: TensorFlow is made to lack what tf_keras asks it for."""

import tensorflow as tf

del tf.__internal__.register_load_context_function

import tf_keras  # noqa: E402

print(tf_keras.__version__)
