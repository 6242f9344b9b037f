"""The switch: a separate process that connects the tasks' network namespaces. Imports only the standard library."""
