"""The switch: a process of its own that joins the tasks' network namespaces. Standard library only."""
