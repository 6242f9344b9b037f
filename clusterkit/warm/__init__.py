"""Warm start: forks tasks from a server that has already imported TensorFlow. One or many runs use such a server."""
