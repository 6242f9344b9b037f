"""Mends: what is put right in a task's libraries as they are imported. Each file is loaded by its path."""
