"""The backends: they start, signal and watch tasks, and post the same events wherever the tasks run."""
