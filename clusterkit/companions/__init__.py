"""Companions: the processes beside a run, such as TensorBoard, and their main program."""
