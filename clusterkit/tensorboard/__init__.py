"""TensorBoard for a run: a process that serves TensorBoard, and writes steps, speed and metrics as scalars."""
