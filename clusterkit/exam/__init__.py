"""The exam: whether a training program computes the same when it is distributed, stopped and broken."""
