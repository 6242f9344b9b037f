"""Warm start: forks tasks from a server that has already imported TensorFlow. Several runs may share a server."""
