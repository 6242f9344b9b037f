"""Code that runs in a task's own interpreter: standard library only, loaded by path."""
