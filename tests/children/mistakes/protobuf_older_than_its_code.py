"""A protobuf that is older than the one for which TensorFlow was built: the installed one says that it is version 4."""

from google.protobuf import runtime_version

runtime_version.MAJOR = 4

import tensorflow as tf  # noqa: E402

print(tf.__version__)
