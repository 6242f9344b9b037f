"""The exam: tests whether a program computes the same when it is distributed, stopped, or hit by faults."""
