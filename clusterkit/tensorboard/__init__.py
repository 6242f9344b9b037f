"""The process beside a run that shows it: the real TensorBoard, and what clusterkit knows of the tasks as scalars."""
