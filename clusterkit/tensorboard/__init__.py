"""TensorBoard for a run: a process that serves it, and that writes what clusterkit knows of the tasks as scalars."""
