"""Companions: the processes beside a run, such as TensorBoard's, and their one main program."""
