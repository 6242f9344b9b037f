"""TensorBoard for a run: a process that serves it, and writes the tasks' steps, speed and metrics as scalars."""
