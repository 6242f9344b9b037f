"""Examines whether a program computes the same results when it is distributed, interrupted, or hit by faults."""
