"""Warm start: forks tasks from a process that has already imported TensorFlow, for one run or shared by many runs."""
