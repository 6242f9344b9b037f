"""The backends: they start, signal and report tasks, and post the same events, wherever the tasks run."""
