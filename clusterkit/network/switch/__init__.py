"""The switch: a separate process that connects the tasks' network namespaces. Standard library only."""
