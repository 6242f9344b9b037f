"""Patches: what is repaired in a task's libraries as they are imported. Each file is loaded by its path."""
