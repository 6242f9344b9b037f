"""TensorFlow with a protobuf that is older than its own code: a stand-in without runtime_version hides the new one."""
