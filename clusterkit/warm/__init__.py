"""Warm start: forks tasks from a process that has already imported TensorFlow, and that serves one run or many runs."""
