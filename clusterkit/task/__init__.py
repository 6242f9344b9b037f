"""Code that runs in a task's own interpreter, is loaded by path, and imports only the standard library."""
